// Micro-batches as a loop inside the program, so that plans, schedules and memory see one step.
#pragma once

#include <functional>

#include "core/transform/record.h"

namespace mstrain {

// Types of one of `n` micro-batches. Throws where a leading dim does not divide.
Types micro_types(int64_t n, const Tensors& batch, const std::vector<std::string>& paths);
// Sums of the program's outputs over the micro-batches.
Tensors accumulate_recorded(int64_t n, const GraphPtr& program, const Tensors& captures,
                            const Tensors& batch, bool in_own_type = false,
                            int64_t side_by_side = 1, size_t apart = 0);

// The outputs of `program` for each of `inputs`, whose applications take turns: whenever one has begun collectives, it is the next
// one's, whose products they run under.
std::vector<Tensors> replay_in_turns(const Graph& program, const std::vector<Tensors>& inputs);

// How the values of a micro-batch join what was summed up before it.
struct SumRule {
  std::function<Tensors(std::span<const TensorType> values)> zeros;  // what sums begin with
  std::function<Tensors(std::span<const Tensor> sums, std::span<const Tensor> values)> add;
};
// value by value, sum + value, in the type that sums of it are formed in.
SumRule plain_sums(bool in_own_type);
// The sums that the rule comes to, in a loop, also of one turn. In each turn `side_by_side` micro-batches, which divide `n`, are
// computed, so that the collectives of one run under the products of others; the sums stay what they are. The program's last
// `apart` outputs are not summed up: those of all micro-batches follow one another along their first dim, behind the sums. `so_far`: the sums
// that it goes on from; none: those that the rule begins with.
Tensors accumulate_by(const SumRule& rule, int64_t n, const GraphPtr& program,
                      const Tensors& captures, const Tensors& batch, int64_t side_by_side = 1,
                      size_t apart = 0, const Tensors& so_far = {});
// The type that values of `dtype` are summed up in, unless it is their own.
Dtype sum_dtype(Dtype dtype);

// accumulate(n, f)(batch, rest…): the sums over `n` micro-batches of f(micro-batch, rest…), a tree of numbers (gradients,
// losses, counts). Micro-batch i holds rows [i b/n, (i+1) b/n) of the leading dim b of every tensor of the batch; rest is
// the same for all. The caller divides by n for a mean.
//
// The sum is formed in the order of the index, ((v_0 + v_1) + v_2) + …: a tree that depends on n alone. bf16 and f16 are
// summed in f32 and rounded once at the end; `in_own_type`, which takes half the memory, rounds after every addition. The last
// `apart` leaves of what f returns are of samples: they follow one another instead.
template <class F>
auto accumulate(int64_t n, F f, bool in_own_type = false, int64_t side_by_side = 1,
                size_t apart = 0) {
  return [=, f = std::move(f)](const auto& batch, const auto&... rest) {
    std::vector<std::string> paths;
    const Tensors leaves = flatten_tree(batch, &paths);
    const auto one = [&](const auto& micro) { return f(micro, rest...); };
    const auto recorded = record(one, std::make_tuple(batch), micro_types(n, leaves, paths));
    return recorded.rebuild(accumulate_recorded(n, recorded.program, recorded.captures, leaves,
                                                in_own_type, side_by_side, apart));
  };
}

}  // namespace mstrain
