// Tensors in parts, as ranks hold them, and together again.
#pragma once

#include "core/ir/layout.h"
#include "core/ir/tensor.h"

namespace mstrain {

// What each of the ranks of one axis has of x. What fills up uneven parts is no element of x; terms are drawn from `seed`.
Tensors parts_of(const Tensor& x, const Placement& placement, int64_t ranks, uint64_t seed);

// The tensor of type `whole` that the ranks have parts of. Replicas that differ in a bit fail the test.
Tensor joined(std::span<const Tensor> parts, const Placement& placement, const TensorType& whole);

// The same over all axes of a mesh; by rank of it.
Tensors parts_of(const Tensor& x, const Layout& layout, const Mesh& mesh, uint64_t seed);
Tensor joined(std::span<const Tensor> parts, const Layout& layout, const Mesh& mesh,
              const TensorType& whole);

}  // namespace mstrain
