// A sequential generator over Philox (core/base/philox.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/base/philox.h"

namespace mstrain {

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
