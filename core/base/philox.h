// Random numbers as values: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A draw is a pure function of (key, counter), so kernels compute the draw of any index in any order. Compilers of kernels for
// cards read this too.
#pragma once

#include <array>
#include <cstdint>

namespace mstrain {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return c;
}

constexpr PhiloxKey philox_key(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}
constexpr PhiloxCounter philox_counter(uint64_t index, uint64_t stream) {
  return {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
          static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
}

// Uniform in [0, 1): multiples of 2^-24, and of 2^-53.
constexpr float to_unit_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }
constexpr double to_unit_double(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace mstrain
