// Which number a random operation draws: the definition that every backend follows.
//
// A (key, site) pair owns an endless stream of 32-bit words: word j is word j % 4 of
// philox(counter j / 4, stream site). Element i of a result, counted in row-major order, uses
//   bits                     word i
//   uniform f32, f16, bf16   word i: its upper 24, 11, 8 bits as a fraction; never rounds to 1
//   uniform f64              words 2i (low half), 2i + 1: the upper 53 bits
//   normal f32, f16, bf16    words 2i, 2i + 1, as two fractions of 24 bits
//   normal f64               words 4i … 4i + 3, as two fractions of 53 bits
// normal is sqrt(-2 ln(1 - u)) cos(2πv) of the two fractions u, v (Box & Muller 1958).
// Of a part of a larger draw, i counts the elements of the whole: whole_index().
#pragma once

#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/ir/attr.h"
#include "core/runtime/dtype.h"
#include "core/runtime/shape.h"

namespace mstrain {

// Of two fractions.
inline double normal_of(double u, double v) {
  return std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
}

struct RandomStream {
  PhiloxKey key;
  uint64_t site = 0;

  uint32_t word(uint64_t j) const { return philox(philox_counter(j >> 2, site), key)[j & 3U]; }
  double fraction24(uint64_t j) const { return static_cast<double>(word(j) >> 8) * 0x1p-24; }
  double fraction53(uint64_t j) const {
    return to_unit_double(word(j) | (uint64_t{word(j + 1)} << 32));
  }

  double uniform(Dtype dtype, uint64_t i) const {
    switch (dtype) {
      case Dtype::kF64: return fraction53(2 * i);
      case Dtype::kF16: return static_cast<double>(word(i) >> 21) * 0x1p-11;
      case Dtype::kBF16: return static_cast<double>(word(i) >> 24) * 0x1p-8;
      default: return fraction24(i);
    }
  }

  double normal(Dtype dtype, uint64_t i) const {
    const bool wide = dtype == Dtype::kF64;
    const double u = wide ? fraction53(4 * i) : fraction24(2 * i);
    return normal_of(u, wide ? fraction53(4 * i + 2) : fraction24(2 * i + 1));
  }
};

// The place in `whole` of element i of `shape` (both row-major) when element 0 stands at `offset`.
inline uint64_t whole_index(int64_t i, const Shape& shape, const Shape& whole,
                            const int32_t* offset) {
  int64_t index = 0;
  int64_t stride = 1;
  for (int dim = shape.rank(); dim-- > 0;) {
    index += (offset[dim] + i % shape[dim]) * stride;
    i /= shape[dim];
    stride *= whole[dim];
  }
  return static_cast<uint64_t>(index);
}

// Of a draw's attributes: its part may go on past the ends of dims, with numbers of no element.
inline constexpr std::string_view kPastEnd = "past_end";

// Throws Error unless `shape` lies within `whole` at `offset`, where `attrs` say nothing else.
inline void check_within(const Shape& shape, const Shape& whole, const int32_t* offset,
                         const Attrs& attrs) {
  if (attrs.find(kPastEnd) != nullptr && attrs.flag(kPastEnd)) {
    return;
  }
  for (int dim = 0; dim < shape.rank(); ++dim) {
    check(offset[dim] >= 0 && offset[dim] <= whole[dim] - shape[dim],
          "random: a part {} of {} at {} of dim {}", to_string(shape), to_string(whole),
          offset[dim], dim);
  }
}

}  // namespace mstrain
