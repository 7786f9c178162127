// Products in pieces of their rows, so that the exchange of one piece runs under the product of the next.
#pragma once

#include <optional>

#include "core/ops/dot_general.h"

namespace mstrain {

// A dim that the first operand of a product alone brings to the result.
struct RowDim {
  int a = 0, out = 0;
};
// The operand's first dim of more than one row, but for `not_a`, where it is such a one and not `not_out` of the result (-1: none).
std::optional<RowDim> row_dim(const DotDims& dims, const Shape& a, int not_a, int not_out);

// `x` cut along `dim` into `count` pieces, or as many as there are rows, as even as these allow.
Tensors pieces_of(const Tensor& x, int dim, int64_t count);

}  // namespace mstrain
