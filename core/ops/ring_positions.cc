#include "core/ops/ring_positions.h"

#include <algorithm>
#include <array>

#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {

RingPositions::RingPositions(bool zigzag, const MeshAxis& axis)
    : zigzag_(zigzag),
      axis_(axis),
      rank_(axis_index(axis)),
      odd_(equal(rank_ - floor_divide(rank_, 2) * 2, 1)) {}

std::vector<int64_t> RingPositions::owners(int64_t second) const {
  std::vector<int64_t> to;
  for (int64_t rank = 0; rank < axis_.size; ++rank) {
    const int64_t piece = 2 * rank + second;
    to.push_back(std::min(piece, 2 * axis_.size - 1 - piece));
  }
  return to;
}

// The lower piece of an even rank has an even number, that of an odd one an odd number.
Tensors RingPositions::swapped_if_odd(const Tensor& a, const Tensor& b) const {
  return {where(odd_, b, a), where(odd_, a, b)};
}

Tensor RingPositions::piece(const Tensor& x, int dim, int64_t index) const {
  const int64_t size = x.dim(dim) / pieces();
  return zigzag_ ? slice(x, dim, index * size, (index + 1) * size) : x;
}

Tensor RingPositions::dealt(const Tensor& x, int dim) const {
  if (!zigzag_) {
    return x;
  }
  const Tensor even = permute(piece(x, dim, 0), axis_, owners(0));
  const Tensor odd = permute(piece(x, dim, 1), axis_, owners(1));
  return concat(swapped_if_odd(even, odd), dim);
}

Tensor RingPositions::returned(const Tensor& x, int dim) const {
  if (!zigzag_) {
    return x;
  }
  const Tensors by_number = swapped_if_odd(piece(x, dim, 0), piece(x, dim, 1));
  return concat(std::array{permute(by_number[0], axis_, inverse_of(owners(0))),
                           permute(by_number[1], axis_, inverse_of(owners(1)))},
                dim);
}

Tensor RingPositions::first_of(const Tensor& rank, int64_t index, int64_t size) const {
  const Tensor piece = index == 0 ? rank : static_cast<double>(2 * axis_.size - 1) - rank;
  return piece * static_cast<double>(size);
}

}  // namespace mstrain
