// Floats of 8 bits: from and to others.
#pragma once

#include "core/backends/cuda/device/kernel.cuh"
#include "core/ops/float8_code.h"

namespace mstrain::cuda {

template <class Code, class Format, int n>
Pack<uint8_t, n> encode_pack(const Pack<typename Format::Stored, n>& x, float per_unit) {
  Pack<uint8_t, n> codes;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    codes.at[j] = Code::encode(float(Format::load(x.at[j])), per_unit);
  }
  return codes;
}

template <class Code, int n>
Pack<uint16_t, n> decode_pack(const Pack<uint8_t, n>& codes) {
  Pack<uint16_t, n> x;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    x.at[j] = BF16::store(Code::decode(codes.at[j]));
  }
  return x;
}

}  // namespace mstrain::cuda
