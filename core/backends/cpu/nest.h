// Loop nests over strided operands.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/runtime/shape.h"

namespace mstrain::cpu {

inline constexpr int kMaxOperands = 4;

// The dims of an iteration and each operand's strides (elements). Dims of size 1 are dropped, and neighbours merged where
// every operand steps through them evenly. At least one dim; no dims of size 0.
struct Nest {
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<std::array<int64_t, kMaxRank>, kMaxOperands> strides{};

  int64_t elements() const {
    int64_t product = 1;
    for (int d = 0; d < rank; ++d) {
      product *= dims[static_cast<size_t>(d)];
    }
    return product;
  }
  int64_t inner() const { return dims[static_cast<size_t>(rank - 1)]; }
  int64_t inner_stride(int operand) const {
    return strides[static_cast<size_t>(operand)][static_cast<size_t>(rank - 1)];
  }
  // Offset of the first element of row `row` (the index over all dims but the last).
  int64_t row_offset(int operand, int64_t row) const {
    int64_t offset = 0;
    for (int d = rank - 2; d >= 0; --d) {
      const auto at = static_cast<size_t>(d);
      offset += row % dims[at] * strides[static_cast<size_t>(operand)][at];
      row /= dims[at];
    }
    return offset;
  }
  // Whether the operand is walked densely / is one element throughout.
  bool dense(int operand) const {
    return rank == 1 && (inner_stride(operand) == 1 || inner() == 1);
  }
  bool constant(int operand) const {
    for (int d = 0; d < rank; ++d) {
      if (strides[static_cast<size_t>(operand)][static_cast<size_t>(d)] != 0) {
        return false;
      }
    }
    return true;
  }
};

Nest make_nest(const Shape& shape, std::span<const Shape> strides);

}  // namespace mstrain::cpu
