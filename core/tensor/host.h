// Tensors to and from host memory.
#pragma once

#include <string>

#include "core/ir/arg.h"

namespace mstrain {

// Copies `values` (row-major, as many as `shape` has) into a new tensor of the current context.
template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape);
// A copy of raw elements of any dtype.
Tensor tensor_from_bytes(const void* data, const TensorType& type);
// A vector; dtype is given, so that `values({1, 2}, Dtype::kI32)` is exact.
Tensor vector(std::initializer_list<double> values, Dtype dtype = Dtype::kF32);
Tensor scalar(double value, Dtype dtype = Dtype::kF32);
// An uninitialised tensor and where to write it. For readers and kernels; nobody else may hold it yet.
Tensor uninitialised(const TensorType& type);

// The elements in row-major order. Throws inside jit, naming the line: there is no value yet.
template <class T>
std::vector<T> to_vector(const Tensor& x, const SourceLocation& where = SourceLocation::current());
// The elements converted to double, whatever the dtype.
std::vector<double> to_doubles(const Tensor& x,
                               const SourceLocation& where = SourceLocation::current());
// The only element, converted to double.
double item(const Tensor& x, const SourceLocation& where = SourceLocation::current());
// The same values laid out densely (the tensor itself where it already is).
Tensor dense(const Tensor& x);

// "f32[2, 2] [[1, 2], [3, 4]]", shortened in the middle when large.
std::string to_text(const Tensor& x);

}  // namespace mstrain
