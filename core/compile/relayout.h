// From one placement of a tensor to another: the collectives of a partitioned program.
#pragma once

#include "core/ir/layout.h"
#include "core/ir/tensor.h"

namespace mstrain {

// What a rank has of `whole` as `to`, from what it has as `from`. Throws Error where no collective does that: terms of a sum
// are made from nothing else.
Tensor relayout(const Tensor& part, const TensorType& whole, const Placement& from,
                const Placement& to, const MeshAxis& axis);

// Bytes that a rank sends for it; infinite where relayout() throws.
double relayout_bytes(const TensorType& whole, const Placement& from, const Placement& to,
                      int64_t ranks);

}  // namespace mstrain
