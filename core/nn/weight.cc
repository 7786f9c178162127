#include "core/nn/weight.h"

#include "core/base/error.h"
#include "core/ops/coded_weight.h"
#include "core/ops/dot_general.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

std::string letters(char first, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) {
    result.push_back(static_cast<char>(first + i));
  }
  return result;
}

// The dims of x before those that are summed over, and `last`.
Shape leading_and(const Tensor& x, int in_dims, const Shape& last) {
  Shape shape(std::span(x.shape().begin(), x.shape().end() - in_dims));
  for (const int64_t dim : last) {
    shape.push_back(dim);
  }
  return shape;
}

}  // namespace

Tensor multiply(const Tensor& x, const Weight& weight) {
  const int in_dims = weight.form.in_dims;
  if (weight.code) {
    const int64_t width = weight.in().elements();
    const Tensor y = coded_product(reshape(x, leading_and(x, in_dims, {width})), weight.values,
                                   *weight.code, width);
    return reshape(y, leading_and(x, in_dims, weight.out()));
  }
  // Every dim keeps its letter: rows, what is summed over, what comes out.
  const std::string row = letters('a', x.rank() - in_dims);
  const std::string from = letters('k', in_dims);
  const std::string to = letters('A', weight.shape.rank() - in_dims);
  return dot_general(x, weight.values,
                     {row + from, weight.form.out_first ? to + from : from + to, row + to});
}

Tensor embedding(const Weight& weight, const Tensor& ids) {
  check(weight.shape.rank() == 2 && weight.form == MatrixForm{},
        "an embedding is [count, width], with a row for each id");
  const Tensor rows = embedding(weight.values, ids);
  return weight.code ? decode_rows(rows, *weight.code, weight.shape[1]) : rows;
}

Tensor numbers(const Weight& weight) {
  if (!weight.code) {
    return weight.values;
  }
  const Tensor matrix = decode_rows(weight.values, *weight.code, weight.in().elements());
  return reshape(weight.form.out_first ? matrix : transpose(matrix, {1, 0}), weight.shape);
}

}  // namespace mstrain
