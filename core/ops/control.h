// Operations whose attributes hold programs: loops, recomputation, functions with a derivative of their own.
// The executor runs their bodies; backends do not see them.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> control_ops();

// body(carries…, constants…, slices of xs…) -> (carries…, slices of ys…), applied `length` times, from the last slice
// to the first where `reverse`. Inputs: initial carries, constants, xs with a leading dim of `length`.
// Results: final carries, ys stacked. Reverse mode keeps the carries of every step and recomputes the body.
Tensors scan_program(const GraphPtr& body, std::span<const Tensor> carries,
                     std::span<const Tensor> constants, std::span<const Tensor> xs, int64_t length,
                     bool reverse);

// body(carries…, constants…) -> carries… while condition(carries…, constants…) -> bool[]. Forward mode only.
Tensors while_program(const GraphPtr& condition, const GraphPtr& body,
                      std::span<const Tensor> carries, std::span<const Tensor> constants);

// body(inputs…), whose reverse mode runs the body again instead of keeping what it computed.
Tensors recompute_program(const GraphPtr& body, std::span<const Tensor> inputs);

// forward(inputs…) -> (outputs…, residuals…); backward(residuals…, cotangents of outputs…) -> cotangents of inputs.
// Returns the first `outputs` results.
Tensors custom_vjp_program(const GraphPtr& forward, const GraphPtr& backward, int64_t outputs,
                           std::span<const Tensor> inputs);

// The values, but none is available before all are, and nothing is fused across: keeps a recomputation behind the cotangents
// that ask for it, and what is computed apart from what is done with it.
Tensors barrier(std::span<const Tensor> values);

}  // namespace mstrain
