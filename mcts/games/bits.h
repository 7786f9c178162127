// Sets of cells as bits, for boards of up to 64 and up to 256 cells.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mstrain::mcts {

constexpr uint64_t bit_at(uint32_t i) { return uint64_t{1} << i; }

// The n-th set bit of `bits`, n from 0; n is below the number of set bits.
constexpr uint32_t nth_bit(uint64_t bits, uint32_t n) {
  for (; n > 0; --n) {
    bits &= bits - 1;
  }
  return static_cast<uint32_t>(std::countr_zero(bits));
}

// Calls f(index) for each set bit, lowest first.
template <class F>
constexpr void for_each_bit(uint64_t bits, F f) {
  for (; bits != 0; bits &= bits - 1) {
    f(static_cast<uint32_t>(std::countr_zero(bits)));
  }
}

// A set of cells 0..kCells-1.
template <uint32_t kCells>
struct CellSet {
  static constexpr size_t kWords = (kCells + 63) / 64;
  std::array<uint64_t, kWords> words{};

  constexpr bool contains(uint32_t i) const { return (words[i / 64] >> (i % 64) & 1) != 0; }
  constexpr void insert(uint32_t i) { words[i / 64] |= bit_at(i % 64); }
  constexpr void erase(uint32_t i) { words[i / 64] &= ~bit_at(i % 64); }
  constexpr uint32_t size() const {
    int count = 0;
    for (const uint64_t word : words) {
      count += std::popcount(word);
    }
    return static_cast<uint32_t>(count);
  }
  template <class F>
  constexpr void for_each(F f) const {
    for (uint32_t w = 0; w < kWords; ++w) {
      for_each_bit(words[w], [&](uint32_t i) { f(64 * w + i); });
    }
  }
  bool operator==(const CellSet&) const = default;
};

}  // namespace mstrain::mcts
