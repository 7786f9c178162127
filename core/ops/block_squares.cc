#include "core/ops/block_squares.h"

#include <array>

#include "core/ops/accumulation.h"
#include "core/ops/block_code.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

static_assert(kNormBlock % kCodeBlock == 0);

// Of x[blocks * kNormBlock].
Tensor of_whole_blocks(const Tensor& x) {
  const Tensor rows = reshape(x, {x.elements() / kNormBlock, kNormBlock});
  return sum(square(widened(rows)), {1});
}

}  // namespace

Tensor block_squares(const Tensor& x) {
  const int64_t n = x.elements();
  const int64_t rest = n % kNormBlock;
  const Tensor flat = reshape(x, {n});
  if (rest == 0) {
    return of_whole_blocks(flat);
  }
  const Tensor tail = of_whole_blocks(pad(slice(flat, 0, n - rest, n), {0}, {kNormBlock - rest}));
  if (n < kNormBlock) {
    return tail;
  }
  return concat(std::array{of_whole_blocks(slice(flat, 0, 0, n - rest)), tail}, 0);
}

Tensor squares_by_blocks(const Tensor& x) {
  return x.elements() <= kNormBlock ? sum_squares(x) : sum(block_squares(x));
}

}  // namespace mstrain
