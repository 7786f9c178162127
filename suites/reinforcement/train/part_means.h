// Means over equal parts of a batch that learners share.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/mesh.h"
#include "core/tensor/params.h"

namespace mstrain::reinforcement {

using NamedNumbers = std::vector<std::pair<std::string, Tensor>>;

// Part i is learner i mod n's, in turn i / n. What all parts come to is added in the order of parts, bit for bit as one learner adds
// it that has all.
class PartMeans {
 public:
  // `learners`: along the axis `data` of the context's ranks.
  explicit PartMeans(int64_t learners) : axis_{std::string(kDataAxis), learners} {}

  // This learner's part of the next turn: of f32, the same parameters and measures each time.
  void add(const Params& gradients, const NamedNumbers& measures);
  // Of all parts so far, into what was added last.
  void finish(Params& gradients, NamedNumbers& measures) const;

 private:
  MeshAxis axis_;
  int64_t turns_ = 0;
  Tensor sum_;  // of many learners this one's piece of it
};

// Values of all parts of a batch, one part after another: of what this learner's have, by turns, along the leading dim.
Tensor of_all_parts(int64_t learners, std::span<const Tensor> own);

}  // namespace mstrain::reinforcement
