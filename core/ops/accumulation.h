// In which precision composites compute: sums over elements of 16 bits are formed in f32, and
// rounded once at the end.
#pragma once

#include "core/ops/elementwise.h"

namespace mstrain {

constexpr Dtype accumulation_dtype(Dtype dtype) {
  return dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
}

// Floating, of 16 bits.
constexpr bool is_short(Dtype dtype) { return dtype == Dtype::kBF16 || dtype == Dtype::kF16; }

// `x` in the precision of its sums.
inline Tensor widened(const Tensor& x) { return cast(x, accumulation_dtype(x.dtype())); }

}  // namespace mstrain
