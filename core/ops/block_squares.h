// Sums of squares by blocks: what norms are made of. The elements of a tensor, as memory lists them, are cut into blocks, and
// norms are sums over blocks in their order, so that no bit depends on who holds which of them.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

// A multiple of kCodeBlock. The last block of a tensor is as if zeros followed.
inline constexpr int64_t kNormBlock = 1024;
constexpr int64_t norm_blocks(int64_t elements) { return (elements + kNormBlock - 1) / kNormBlock; }

// [blocks]: f64 for f64, else f32.
Tensor block_squares(const Tensor& x);
// The sum of the squares of all elements, [].
Tensor squares_by_blocks(const Tensor& x);

}  // namespace mstrain
