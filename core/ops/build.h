// Small tools that rules and user functions of all op families share.
#pragma once

#include <utility>

#include "core/ir/arg.h"

namespace mstrain {

// a + b, where an empty tensor is zero.
Tensor add_or_zero(const Tensor& a, const Tensor& b);

Types types_of(std::span<const Tensor> tensors);

// Throws ShapeError unless exactly `count` inputs are given.
void expect_inputs(std::span<const TensorType> inputs, int count);

// Throws ShapeError where a dim is negative.
void expect_dims(const Shape& shape);

// 0 … rank-1 for an axis that may count from the end; throws ShapeError("axis 3 is outside of [2, 4]").
int normal_axis(int64_t axis, int rank);

// Throws where elements of an integer type cannot be `value`: 0.5, or 300 of u8.
void expect_number_of(Dtype dtype, double value, std::string_view op, const SourceLocation& where);

// The same for an argument of a user's function; throws Error naming the function and its line.
int axis_of(const Arg& x, int axis, std::string_view function);

// The common shape of a and b under NumPy's broadcasting; throws Error at `where`.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b,
                      const SourceLocation& where);

// Both arguments as tensors of one shape; a number becomes a constant of the other's dtype.
std::pair<Tensor, Tensor> broadcast_together(std::string_view op, const Arg& x, const Arg& y);

// A constant: every element of `shape` is `value`. Throws where a dim is negative, or an integer type has no such number.
Tensor full(const Shape& shape, double value, Dtype dtype = Dtype::kF32,
            const SourceLocation& where = SourceLocation::current());
// The same as a single node, where full() repeats one number.
Tensor filled(const TensorType& type, double value);
Tensor zeros(const TensorType& type);
Tensor zeros_like(const Tensor& x);
// `tensors`, and zeros like those of `like` in place of empty ones.
Tensors or_zeros(std::span<const Tensor> tensors, std::span<const Tensor> like);
// 0, 1, 2, … along `axis`.
Tensor iota(const Shape& shape, int axis, Dtype dtype = Dtype::kI32,
            const SourceLocation& where = SourceLocation::current());

// Gives `x` the leading dim of a batch by repeating it (no copy).
Tensor repeat_leading(const Tensor& x, int64_t size);
// For batching rules: every input with the leading dim, repeated where it is not batched.
Tensors batch_all(std::span<const Tensor> inputs, std::span<const bool> batched, int64_t size);

// Derivatives of a composite through its decomposition (transposed where needed).
Tensors jvp_by_decomposition(const Application& node, std::span<const Tensor> tangents);
Tensors vjp_by_decomposition(const Application& node, std::span<const Tensor> cotangents);
// Batches a composite through its decomposition.
Tensors batch_by_decomposition(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                               std::span<const bool> batched, int64_t size);
// Batching of an operation that already treats leading dims as independent: repeats what is not batched.
Tensors batch_leading(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                      std::span<const bool> batched, int64_t size);

// Walks the recorded nodes between `wrt` and `outputs` backwards: the cotangents of `wrt`, empty where zero.
// All tensors belong to the innermost trace.
Tensors pull_back(std::span<const Tensor> outputs, std::span<const Tensor> cotangents,
                  std::span<const Tensor> wrt);
// Walks them forwards: the tangents of `outputs`, empty where zero.
Tensors push_forward(std::span<const Tensor> inputs, std::span<const Tensor> tangents,
                     std::span<const Tensor> outputs);
// The program's outputs over inputs of which some carry a leading dim `size`; all outputs get one.
Tensors replay_batched(const Graph& graph, std::span<const Tensor> inputs,
                       std::span<const bool> batched, int64_t size);

}  // namespace mstrain
