// Blocks of numbers on their way to and from fewer bits, on the stack of one thread. core/ops/block_code.h defines the
// results, which depend on no thread.
#pragma once

#include <algorithm>

#include "core/backends/cpu/loops.h"
#include "core/ops/block_code.h"

namespace mstrain::cpu {

// The random words of elements [first, first + kCodeBlock) of a stream; `first` is a multiple of kCodeBlock.
struct BlockWords {
  alignas(64) uint32_t words[kCodeBlock];
  BlockWords(int64_t first, int64_t site, const uint32_t* key) {
    loops().other->philox(kCodeBlock / 4, static_cast<uint64_t>(first / 4),
                          static_cast<uint64_t>(site), key, words);
  }
};

inline void round_block(int64_t n, const float* x, const BlockWords& random, BFloat16* y) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = stochastic_bf16(x[i], random.words[i]);
  }
}

// The block's scale. NaN where an element is.
inline float largest(int64_t n, const float* x) {
  float most = 0;
  bool regular = true;
  for (int64_t i = 0; i < n; ++i) {
    const float magnitude = std::abs(x[i]);
    most = std::max(most, magnitude);
    regular = regular && magnitude == magnitude;
  }
  return regular ? block_scale(most) : block_scale(std::bit_cast<float>(0x7fc00000U));
}

template <bool is_signed>
void encode_block(int64_t n, const float* x, const BlockWords& random, uint8_t* codes,
                  float* scale) {
  *scale = largest(n, x);
  for (int64_t i = 0; i < n; ++i) {
    codes[i] =
        BlockCode<is_signed>::encode(is_signed ? x[i] : std::abs(x[i]), *scale, random.words[i]);
  }
}

template <bool is_signed>
void decode_block(int64_t n, const uint8_t* codes, float scale, float* x) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] = BlockCode<is_signed>::decode(codes[i], scale);
  }
}

}  // namespace mstrain::cpu
