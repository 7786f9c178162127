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
  loops().storage->round(n, x, random.words, y);
}

template <bool is_signed>
void encode_block(int64_t n, const float* x, const BlockWords& random, uint8_t* codes,
                  float* scale) {
  *scale = loops().storage->scale(n, x);
  loops().storage->encode[is_signed](n, x, *scale, random.words, codes);
}

template <bool is_signed>
void decode_block(int64_t n, const uint8_t* codes, float scale, float* x) {
  loops().storage->decode[is_signed](n, codes, scale, x);
}

}  // namespace mstrain::cpu
