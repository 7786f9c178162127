// Random numbers as values: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A draw is a pure function of (key, counter), so kernels compute the draw of any index in any order.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

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

// Everything that a sequential generator is; save and restore it as three integers.
struct RngState {
  uint64_t seed = 0;
  uint64_t stream = 0;    // generators with equal seeds and different streams are independent
  uint64_t position = 0;  // 32-bit words drawn so far
  auto operator<=>(const RngState&) const = default;
};

// Sequential generator for the host. A value: copies continue alike. Not thread-safe; give each thread its own stream.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : state_{seed, stream, 0} {}
  explicit Rng(const RngState& state) : state_(state) {}
  const RngState& state() const { return state_; }

  uint32_t next_u32() {
    const uint64_t index = state_.position >> 2;
    if (!filled_ || index != block_index_) {
      block_ = philox(philox_counter(index, state_.stream), philox_key(state_.seed));
      block_index_ = index;
      filled_ = true;
    }
    return block_[state_.position++ & 3U];
  }
  uint64_t next_u64() {
    const uint64_t low = next_u32();
    return low | (static_cast<uint64_t>(next_u32()) << 32);
  }

  double uniform() { return to_unit_double(next_u64()); }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal();                             // mean 0, standard deviation 1; draws four words
  uint64_t below(uint64_t n);                  // uniform in [0, n) without bias; n > 0
  int64_t between(int64_t low, int64_t high);  // uniform in [low, high], both included; low <= high

  template <class T>
  void shuffle(std::span<T> items) {
    for (size_t i = items.size(); i > 1; --i) {
      using std::swap;
      swap(items[i - 1], items[below(i)]);
    }
  }
  template <class Container>
  void shuffle(Container& items) {
    shuffle(std::span(items));
  }

 private:
  RngState state_;
  PhiloxCounter block_{};
  uint64_t block_index_ = 0;
  bool filled_ = false;
};

}  // namespace mstrain
