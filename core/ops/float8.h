// Products of tensors in 8-bit floating point (core/ops/float8_code.h says what the bytes are). Derivatives are zero: rounded values have
// none of use; core/transform/float8.h states those of a product whose operands are rounded.
#pragma once

#include <string_view>

#include "core/ir/arg.h"
#include "core/ops/dot_general.h"
#include "core/ops/float8_code.h"

namespace mstrain {

std::span<const OpDef> float8_ops();

enum class Float8 : uint8_t { kE4M3, kE5M2 };
Float8 float8_of(const Attrs& attrs,
                 std::string_view key);  // throws ShapeError where it is neither
// f(Float8Code<…>()) of the format.
template <class F>
decltype(auto) visit_float8(Float8 format, F&& f) {
  return format == Float8::kE4M3 ? f(Float8Code<E4M3>()) : f(Float8Code<E5M2>());
}

// A tensor is its codes times its unit.
struct Float8Tensor {
  Tensor codes;  // u8
  Tensor unit;   // f32: one, or one for each of the leading dims of a batch
  Float8 format = Float8::kE4M3;
};

// x in a format that its magnitudes up to `expected` (f32 []) fit in, with 2^margin to spare; where that is 0, those up to
// `most` (f32 []), which is what they are. What does not fit becomes the largest number.
Float8Tensor encode_float8(const Arg& x, const Arg& expected, const Arg& most, Float8 format,
                           int64_t margin);
// bf16 of the codes' shape: the numbers without their unit.
Tensor decode_float8(const Arg& codes, Float8 format);

// bf16: the product of two, with the dims of dot_general. Sums are made in f32 and rounded once, or twice where they are
// beyond the normal numbers of bf16.
Tensor float8_product(const Float8Tensor& a, const Float8Tensor& b, const DotDims& dims);

}  // namespace mstrain
