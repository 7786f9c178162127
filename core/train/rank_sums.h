// Sums over the micro-batches of all ranks: what a step adds up, where ranks along an axis have micro-batches of their own.
//
// Micro-batch i belongs to rank i mod size, in turn i / size. In every turn a sum is carried on by the values of the ranks in
// their order, ((sum + v_0) + v_1) + …: bit for bit the sum of one rank that has all of them. Each rank keeps a part of every
// sum: of a parameter's gradient that of its shard; what has none lies in bundles of one type, of which a rank keeps an equal
// part. Each is exchanged as soon as all of it is there: neighbours are in one bundle, up to a limit.
#pragma once

#include "core/optim/shard.h"
#include "core/transform/accumulate.h"

namespace mstrain {

class RankSums {
 public:
  struct Options {
    Reduction reduction = Reduction::kSum;  // the order above; kFastSum: any
    bool in_own_type = false;               // a sum has the type of its values
    double bundle_bytes = 0;                // of a bundle of more than one value, at most
    bool waits = false;                     // for exchanges where they begin
  };

  // `shards`: of each value, null where its sum is wanted whole.
  RankSums(MeshAxis axis, std::vector<const Shard*> shards, const Options& options);

  // The parts of the sums as accumulate_by keeps them.
  SumRule rule(std::span<const TensorType> values) const;
  // What the parts come to, in the types of the values: parts of shards, all else whole.
  Tensors finish(std::span<const Tensor> parts, std::span<const TensorType> values) const;

 private:
  struct Bundle {
    Dtype dtype;
    std::vector<size_t> members;  // of the values
    int64_t elements = 0;
  };
  std::vector<Bundle> bundles(std::span<const TensorType> values) const;
  int64_t part_elements(const Bundle& bundle) const;
  Dtype type_of_sum(Dtype dtype) const;

  MeshAxis axis_;
  std::vector<const Shard*> shards_;
  Options options_;
};

}  // namespace mstrain
