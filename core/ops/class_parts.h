// The cross-entropy of classes of which each rank has a range: of its own logits a rank computes a loss with one class more, which nobody sees.
// It is the target of rows whose target another rank has.
#pragma once

#include "core/comm/mesh.h"
#include "core/ops/cross_entropy.h"

namespace mstrain {

// The logit of that class: small enough for every exponential to vanish; finite in f16.
inline constexpr double kUnseen = -6e4;

struct ClassPart {
  Tensor
      targets;  // own classes count from 0, foreign ones are the one more; ignored rows stay ignored
  Tensor counted, mine;  // bool: the row is not ignored; and its target is an own class
  Tensor first;          // i32 []
};

// Where a rank along `axis` has `own` of `classes`, which the parts may exceed.
ClassPart part_of_classes(const Tensor& targets, int64_t ignore_index, int64_t own, int64_t classes,
                          const MeshAxis& axis);

struct ClassLosses {
  Tensor loss, logsumexp;
};
// Of all classes, by the loss and logsumexp that each rank finds among its own and the unseen one.
ClassLosses losses_of_all(const ClassPart& part, const Tensor& loss, const Tensor& logsumexp,
                          const MeshAxis& axis);

// The loss of rows whose logits[..., classes] all ranks have, with the bits that linear_cross_entropy gives them where ranks along `axis` share
// its weight.
Tensor cross_entropy_by_parts(const Tensor& logits, const Tensor& targets, const MeshAxis& axis);

}  // namespace mstrain
