// Random numbers of environments: draw d of episode e of environment i is a function of (seed, site, i, e, d) alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/base/rng.h"

namespace mstrain::reinforcement {

// Who draws: independent streams for one environment.
enum class DrawSite : uint32_t { kPhysics = 0, kStickyActions = 1 };

// A stream of one episode. `draws` counts what was drawn and belongs to the caller, who saves it. A block of four words gives
// two numbers.
class EnvRandom {
 public:
  EnvRandom(uint64_t seed, DrawSite site, uint64_t env, uint32_t episode, uint32_t& draws)
      : key_(philox_key(seed)),
        counter_{static_cast<uint32_t>(site) << 28, episode, static_cast<uint32_t>(env),
                 static_cast<uint32_t>(env >> 32)},
        draws_(draws) {}

  uint64_t next_u64() {
    const uint32_t block = draws_ >> 1;
    if (!filled_ || block != block_) {
      PhiloxCounter counter = counter_;
      counter[0] |= block;
      words_ = philox(counter, key_);
      block_ = block;
      filled_ = true;
    }
    const uint32_t at = (draws_++ & 1U) * 2;
    return words_[at] | static_cast<uint64_t>(words_[at + 1]) << 32;
  }
  double uniform() { return to_unit_double(next_u64()); }  // [0, 1)
  double normal() {                                        // standard; Box-Muller, of two draws
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // Uniform in [0, n): the high half of a product of 64 by 64 bits, whose bias is below n / 2^64.
  int64_t below(int64_t n) {
    return static_cast<int64_t>(
        static_cast<unsigned __int128>(next_u64()) * static_cast<unsigned __int128>(n) >> 64);
  }

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
  uint32_t& draws_;
  PhiloxCounter words_{};
  uint32_t block_ = 0;
  bool filled_ = false;
};

}  // namespace mstrain::reinforcement
