// Orders without tables: the i-th item of a shuffled pass over any number of items in constant time
// and memory, so that the position of a run in its data is one integer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mstrain {

// A pseudo-random bijection of [0, size). Not for cryptography.
// Source: a Feistel network over pairs of mixed radix with cycle walking (Black and Rogaway,
// "Ciphers with arbitrary finite domains", CT-RSA 2002); eight rounds.
class Permutation {
 public:
  // 1 <= size <= 2^62. Equal arguments give the same permutation; `stream` separates uses of one
  // seed.
  Permutation(int64_t size, uint64_t seed, uint64_t stream, uint64_t epoch);
  int64_t operator()(int64_t index) const;  // 0 <= index < size

 private:
  uint64_t size_;
  uint64_t rows_;  // rows_ * columns_ >= size_, by less than one row
  uint64_t columns_;
  std::array<uint64_t, 8> keys_;
};

// Which of several sources gives sample i of a blend, and the how-manieth of that source it is.
// After n samples every source has given its share of n to within the number of sources, in a fixed
// interleaving.
class Blend {
 public:
  struct Place {
    int source = 0;
    int64_t index = 0;
  };

  // Shares are proportional to `weights`: finite, positive, at least one; Error otherwise.
  explicit Blend(std::span<const double> weights);
  Place locate(int64_t sample) const;  // sample >= 0

 private:
  std::vector<uint64_t> shares_;  // of what the sources before it leave, in units of 2^-62
};

// A stream number for Permutation and philox_counter: one for each (name, index).
uint64_t random_stream(std::string_view name, int64_t index);

}  // namespace mstrain
