// A function of one sample over a batch of them, without a loop: every operation becomes its batched form.
#pragma once

#include "core/transform/record.h"

namespace mstrain {

// The leaves of all arguments, of which some carry the batch as their leading dim.
struct BatchedLeaves {
  Tensors leaves;
  std::vector<bool> mapped;  // by leaf
  Types types;               // of one sample
  int64_t size = -1;         // of the batch

  // Throws where a mapped leaf has no leading dim, or one of another size than those before it.
  void add(const std::string& path, const Tensor& leaf, bool is_mapped);
};

// The outputs of `program` for every sample, each with the batch as its leading dim.
Tensors run_batched(const Graph& program, const BatchedLeaves& arguments,
                    std::span<const Tensor> captures);

// vmap(f)(x, y, …): f of every sample, where the tensors of x, y, … hold the samples along their leading dim, as those
// of the result do. `mapped[i]` false: argument i is the same for all samples, as is every tensor that f uses from
// outside. f is recorded, so that it cannot read values; random numbers of one key are equal for all samples.
template <class F>
auto vmap(F f, std::vector<bool> mapped = {}) {
  return [f = std::move(f), mapped = std::move(mapped)](const auto&... given) {
    check(mapped.empty() || mapped.size() == sizeof...(given),
          "vmap: `mapped` has {} entries for {} arguments", mapped.size(), sizeof...(given));
    auto arguments = std::make_tuple(given...);
    BatchedLeaves batch;
    size_t position = 0;
    LeafVisitor visitor(LeafVisitor::Access::kRead, [&](const std::string& path, Tensor& leaf) {
      batch.add(path, leaf, mapped.empty() || mapped[position]);
    });
    std::apply([&](auto&... a) { ((visitor(std::to_string(position), a), ++position), ...); },
               arguments);
    const auto recorded = record(f, arguments, batch.types);
    return recorded.rebuild(run_batched(*recorded.program, batch, recorded.captures));
  };
}

}  // namespace mstrain
