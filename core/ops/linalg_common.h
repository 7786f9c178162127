// What the operations of linear algebra share.
#pragma once

#include <cmath>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/matmul.h"
#include "core/ops/matrix.h"
#include "core/ops/shape.h"

namespace mstrain {

struct MatrixSize {
  int64_t rows, columns;
};

// Throws ShapeError unless the type is a batch of matrices of floating-point numbers.
inline MatrixSize matrix_size(const TensorType& type) {
  const int rank = type.shape.rank();
  if (rank < 2) {
    throw ShapeError(fmt::format("{} is no matrix", to_string(type.shape)));
  }
  if (!is_floating(type.dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(type.dtype)),
                     "convert it with cast()");
  }
  return {type.shape[rank - 2], type.shape[rank - 1]};
}

inline int64_t square_size(const TensorType& type) {
  const MatrixSize size = matrix_size(type);
  if (size.rows != size.columns) {
    throw ShapeError(fmt::format("{} is not square", to_string(type.shape)));
  }
  return size.rows;
}

// The same for an argument of a user's function: an Error that names it and the line.
inline void expect_square(const Arg& a, std::string_view function) {
  try {
    square_size(a.tensor().type());
  } catch (const ShapeError& error) {
    fail("{}: {}, at {}", function, error.what(), to_string(a.where()));
  }
}

// Attribute of `slogdet`, and of `solve` in its derivative: the function that has that derivative, for errors.
inline constexpr std::string_view kDerivativeOf = "derivative_of";

// What is said of a singular matrix that `op` is to solve.
struct SingularError {
  std::string_view function, what;
};
inline SingularError singular_error(std::string_view op, const Attrs& attrs) {
  if (attrs.find(kDerivativeOf) == nullptr) {
    return {op, "is singular"};
  }
  return {attrs.text(kDerivativeOf), "is singular, where its derivative is not defined here"};
}

// The dims before the last two.
inline Shape batch_of(const Shape& shape) {
  return Shape(std::span(shape.begin(), static_cast<size_t>(shape.rank() - 2)));
}
inline Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// The symmetric matrix whose lower triangle is that of x: what operations on symmetric ones read.
inline Tensor from_lower(const Tensor& x) { return tril(x) + transpose(tril(x, -1)); }
inline Tensor symmetric_part(const Tensor& x) { return 0.5 * (x + transpose(x)); }

// n³ for each matrix of the first input, times `factor`.
inline Cost cubic_cost(std::span<const TensorType> in, std::span<const TensorType> out,
                       double factor) {
  Cost cost = elementwise_cost(in, out, 0);
  const Shape& a = in[0].shape;
  cost.flops = factor * static_cast<double>(in[0].elements()) *
               static_cast<double>(std::min(a[a.rank() - 2], a[a.rank() - 1]));
  return cost;
}

// A sample of matrices that are far from singular, and whose values lie apart.
inline SampleInput regular(Dtype dtype, const Shape& shape) {
  return {{dtype, shape}, -1, 1, false, 3};
}

// Whether a vector is to be turned around, so that its component of the largest magnitude, the first among equals, is
// positive.
template <class Component>
bool points_backwards(int64_t n, const Component& component) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(component(i));
    largest = std::abs(value) > std::abs(largest) ? value : largest;
  }
  return largest < 0;
}

}  // namespace mstrain
