// Storage in fewer bits: stochastic rounding to bf16, and blocks of 8-bit codes. core/ops/block_code.h defines both.
//
// Random bits are functions of (key, site, index of the element), as in core/ops/random.h: no number of threads and no
// order changes them; keys may say which part of a larger tensor x is. Derivatives are zero: states are rounded, and nobody
// differentiates states.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> rounding_ops();

// bf16 of x's shape. key: u32 [2], or [3] (core/ops/block_code.h); site: random_site().
Tensor stochastic_round(const Arg& x, const Arg& key, int64_t site);

struct Blocks {
  Tensor codes;   // u8 of x's shape
  Tensor scales;  // f32 [blocks]
};
// `is_signed`: whether numbers may be negative; those of unsigned blocks lose their sign.
Blocks quantize_blocks(const Arg& x, const Arg& key, int64_t site, bool is_signed);
// f32 of the codes' shape.
Tensor dequantize_blocks(const Blocks& blocks, bool is_signed);

}  // namespace mstrain
