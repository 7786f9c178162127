// Numbers on their way to and from bf16 and 8-bit codes. No result depends on the instruction set.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#include "core/backends/cpu/loops.h"
#include "core/ops/block_code.h"

namespace mstrain::cpu::MSTRAIN_ISA {
namespace {

MSTRAIN_FLATTEN void round(int64_t n, const float* x, const uint32_t* words, BFloat16* y) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i].bits = stochastic_bf16(x[i], words[i]);
  }
}

// As integers, magnitudes are in their order, and NaN is above them.
MSTRAIN_FLATTEN float scale(int64_t n, const float* x) {
  int32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(x[i]) & 0x7fffffffU);
    most = bits > most ? bits : most;
  }
  return block_scale(std::bit_cast<float>(most));
}

template <bool is_signed>
MSTRAIN_FLATTEN void encode(int64_t n, const float* x, float scale, const uint32_t* words,
                            uint8_t* codes) {
  if (!(scale > 0)) {
    std::memset(codes, 0, static_cast<size_t>(n));
    return;
  }
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = BlockCode<is_signed>::encode(x[i], scale, words[i]);
  }
}

template <bool is_signed>
MSTRAIN_FLATTEN void decode(int64_t n, const uint8_t* codes, float scale, float* x) {
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    x[i] = BlockCode<is_signed>::decode(codes[i], scale);
  }
}

}  // namespace

extern const StorageLoops kStorageLoops;
const StorageLoops kStorageLoops = {
    round, scale, {encode<false>, encode<true>}, {decode<false>, decode<true>}};

}  // namespace mstrain::cpu::MSTRAIN_ISA
