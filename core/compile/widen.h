// Kernels for 16-bit floats by way of those for f32: where a backend has only these, an operation converts its inputs,
// computes in f32, and rounds its results once.
#pragma once

#include <optional>
#include <span>

#include "core/ir/backend.h"
#include "core/ir/tensor.h"

namespace mstrain {

// Whether `backend` runs `op` on dense tensors of these types as it is.
bool has_kernel(const Backend* backend, const OpDef& op, const Attrs& attrs,
                std::span<const TensorType> inputs, std::span<const TensorType> outputs);

// The results of `op`, of types `outputs`, through f32; nothing where `backend` has no kernel for that either, or no
// input has 16 bits. The caller knows that there is no kernel for the types as they are.
std::optional<Tensors> apply_widened(const OpDef& op, std::span<const Tensor> inputs,
                                     const Attrs& attrs, std::span<const TensorType> outputs,
                                     const Backend* backend, const SourceLocation& where);

}  // namespace mstrain
