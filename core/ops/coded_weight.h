// Products with weights that are kept in fewer bits (core/ops/weight_code.h): the weight is never there as numbers, but for
// the part of it that is being multiplied. Its derivative is zero, for nobody changes it by small steps.
#pragma once

#include "core/ir/arg.h"
#include "core/ops/weight_code.h"

namespace mstrain {

std::span<const OpDef> coded_weight_ops();

// x[..., width] by the rows of a weight, u8[n, code_row_bytes(code, width)] -> [..., n], in x's type. Transposed: x[..., n] ->
// [..., width], which is the derivative of the other one. Sums are made in f32, in f64 where x is that. Fast kernels may read a
// few rows of x for int8 in blocks of 16 bits, off by 2^-16 of the largest of 32 numbers, where the weights are off by 2^-8.
Tensor coded_product(const Arg& x, const Arg& rows, WeightCode code, int64_t width,
                     bool transposed = false);

// The numbers of rows[..., bytes]: f32 [..., width].
Tensor decode_rows(const Arg& rows, WeightCode code, int64_t width);

}  // namespace mstrain
