// Random numbers of a search: a value keyed by (seed, tree, simulation), so that a simulation draws the same numbers on
// whichever thread it runs. Four times the speed of core/base/rng.h, whose streams are for what must be addressed by index.
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64).
#pragma once

#include <cstdint>

#include "core/base/hash.h"

namespace mstrain::mcts {

class Random {
 public:
  Random() : Random(0) {}
  explicit Random(uint64_t seed, uint64_t tree = 0, uint64_t simulation = 0)
      : state_(hash_mix(hash_mix(hash_mix(seed) + tree) + simulation)) {}

  // An independent generator for item `index`.
  Random split(uint64_t index) const {
    Random other = *this;
    other.state_ = hash_mix(state_ + (index + 1) * 0xd1342543de82ef95U);
    return other;
  }

  uint64_t next_u64() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  uint32_t next_u32() { return static_cast<uint32_t>(next_u64() >> 32); }

  // Uniform in [0, n), n > 0; the bias is below n / 2^32.
  uint32_t below(uint32_t n) {
    return static_cast<uint32_t>((static_cast<uint64_t>(next_u32()) * n) >> 32);
  }
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }  // [0, 1)
  double normal();             // mean 0, deviation 1
  double gumbel();             // standard Gumbel: -log(-log(u))
  double gamma(double shape);  // scale 1; shape > 0

 private:
  uint64_t state_;
};

}  // namespace mstrain::mcts
