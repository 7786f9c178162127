#include "core/train/rank_sums.h"

#include <algorithm>

#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {

RankSums::RankSums(MeshAxis axis, std::vector<const Shard*> shards, const Options& options)
    : axis_(std::move(axis)), shards_(std::move(shards)), options_(options) {}

Dtype RankSums::type_of_sum(Dtype dtype) const {
  return options_.in_own_type ? dtype : sum_dtype(dtype);
}

std::vector<RankSums::Bundle> RankSums::bundles(std::span<const TensorType> values) const {
  std::vector<Bundle> out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (shards_[i] != nullptr) {
      continue;
    }
    const int64_t elements = values[i].elements();
    auto at = std::find_if(out.rbegin(), out.rend(), [&](const Bundle& bundle) {  // the last one
      return bundle.dtype == values[i].dtype;
    });
    if (at == out.rend() || static_cast<double>((at->elements + elements) *
                                                size_of(values[i].dtype)) > options_.bundle_bytes) {
      out.push_back({values[i].dtype, {}, 0});
      at = out.rbegin();
    }
    at->members.push_back(i);
    at->elements += elements;
  }
  return out;
}

int64_t RankSums::part_elements(const Bundle& bundle) const {
  return (bundle.elements + axis_.size - 1) / axis_.size;
}

SumRule RankSums::rule(std::span<const TensorType> types) const {
  SumRule rule;
  rule.zeros = [this](std::span<const TensorType> values) {
    Tensors sums;
    for (size_t i = 0; i < values.size(); ++i) {
      if (shards_[i] != nullptr) {
        sums.push_back(full({shards_[i]->summed_elements()}, 0, type_of_sum(values[i].dtype)));
      }
    }
    for (const Bundle& bundle : bundles(values)) {
      sums.push_back(full({part_elements(bundle)}, 0, type_of_sum(bundle.dtype)));
    }
    return sums;
  };
  rule.add = [this, bundles = bundles(types)](std::span<const Tensor> sums,
                                              std::span<const Tensor> values) {
    const WaitScope scope(options_.waits);
    Tensors after;
    for (size_t i = 0; i < values.size(); ++i) {
      if (shards_[i] != nullptr) {
        after.push_back(
            summed_part(values[i], *shards_[i], options_.reduction, sums[after.size()]));
      }
    }
    for (const Bundle& bundle : bundles) {
      Tensors flat;
      for (const size_t i : bundle.members) {
        flat.push_back(reshape(values[i], {values[i].elements()}));
      }
      const Tensor joined = concat(flat, 0);
      const int64_t padding = part_elements(bundle) * axis_.size - bundle.elements;
      after.push_back(summed_parts(padding == 0 ? joined : pad(joined, {0}, {padding}), axis_,
                                   options_.reduction, sums[after.size()]));
    }
    return after;
  };
  return rule;
}

Tensors RankSums::finish(std::span<const Tensor> parts, std::span<const TensorType> values) const {
  const WaitScope scope(options_.waits);
  Tensors out(values.size());
  size_t next = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (shards_[i] != nullptr) {
      out[i] = part_of_sums(cast(parts[next++], values[i].dtype), *shards_[i]);
    }
  }
  for (const Bundle& bundle : bundles(values)) {
    const Tensor all = all_gather(cast(parts[next++], bundle.dtype), axis_, 0);
    int64_t first = 0;
    for (const size_t i : bundle.members) {
      const int64_t count = values[i].elements();
      out[i] = reshape(slice(all, 0, first, first + count), values[i].shape);
      first += count;
    }
  }
  return out;
}

}  // namespace mstrain
