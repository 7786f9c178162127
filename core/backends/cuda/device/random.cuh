// Random words by counters (core/base/philox.h), numbers of them as core/ops/random_draw.h defines, and what they round.
#pragma once

#include "core/backends/cuda/device/kernel.cuh"
#include "core/base/philox.h"
#include "core/ops/block_code.h"

namespace mstrain::cuda {

struct Stream {
  PhiloxKey key;
  uint64_t site;

  uint32_t word(uint64_t j) const { return philox(philox_counter(j >> 2, site), key)[j & 3U]; }
  double fraction24(uint64_t j) const { return double(word(j) >> 8) * 0x1p-24; }
  double fraction53(uint64_t j) const {
    return to_unit_double(word(j) | (uint64_t(word(j + 1)) << 32));
  }
};

template <class Format>
double uniform_of(const Stream& stream, uint64_t i) {
  if constexpr (std::is_same_v<Format, F64>) {
    return stream.fraction53(2 * i);
  } else if constexpr (std::is_same_v<Format, F16>) {
    return double(stream.word(i) >> 21) * 0x1p-11;
  } else if constexpr (std::is_same_v<Format, BF16>) {
    return double(stream.word(i) >> 24) * 0x1p-8;
  } else {
    return stream.fraction24(i);
  }
}

template <class Format>
double normal_of(const Stream& stream, uint64_t i) {
  constexpr bool kWide = std::is_same_v<Format, F64>;
  const double u = kWide ? stream.fraction53(4 * i) : stream.fraction24(2 * i);
  const double v = kWide ? stream.fraction53(4 * i + 2) : stream.fraction24(2 * i + 1);
  return std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
}

// The stream of row `b` of keys of `width` words, and the element that its first one is.
struct KeyedStream {
  Stream stream;
  int64_t first;
  uint32_t word(int64_t i) const { return stream.word(uint64_t(first + i)); }
};
template <int width, class Keys>
KeyedStream stream_of(const Keys& keys, int64_t b, uint64_t site) {
  const uint32_t low = keys[b * width], high = keys[b * width + 1];
  return {{{low, high}, site},
          width == 3 ? int64_t(uint32_t(keys[b * width + width - 1])) * kCodeBlock : 0};
}

}  // namespace mstrain::cuda
