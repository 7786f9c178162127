// Stable hashes: the same on every platform, process and run, so that they may name cache entries and compare graphs.
// Not cryptographic: for what must resist an adversary or detect damage, see core/io/digest.h.
#pragma once

#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace mstrain {

// A bijection of 64 bits in which every input bit reaches every output bit.
constexpr uint64_t hash_mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93U;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93U;
  return x ^ (x >> 32);
}

// Folds `value` into `seed`; order matters. For hash tables in memory.
constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return hash_mix(std::rotl(seed, 23) * 0x9e3779b97f4a7c15U + value + 0x2545f4914f6cdd1dU);
}

struct Hash128 {
  uint64_t lo = 0;
  uint64_t hi = 0;
  auto operator<=>(const Hash128&) const = default;
};

// 32 lower-case hexadecimal digits, `hi` first.
std::string to_string(const Hash128& hash);

// Streaming hash of a sequence of values. Each call adds one value with its extent, so add("ab"), add("c") differs from
// add("a"), add("bc"). Integers of every width that hold the same number hash alike, doubles by their bits.
class Hasher {
 public:
  explicit constexpr Hasher(uint64_t seed = 0) { word(seed); }

  template <class T>
  requires(std::integral<T> || std::is_enum_v<T>) constexpr Hasher& add(T value) {
    word(static_cast<uint64_t>(value));
    return *this;
  }
  constexpr Hasher& add(double value) { return add(std::bit_cast<uint64_t>(value)); }
  Hasher& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  constexpr Hasher& add(const Hash128& hash) { return add(hash.lo).add(hash.hi); }
  Hasher& add(std::span<const std::byte> bytes);

  // The hash of everything added so far; more may be added afterwards.
  constexpr Hash128 finish() const {
    Hash128 out{hash_mix(lo_ + count_), hash_mix(hi_ ^ std::rotl(lo_, 17))};
    out.lo += out.hi;
    out.hi += hash_mix(out.lo);
    return out;
  }

 private:
  // A bijection of the state for every `value`, so no entropy of earlier values is lost.
  constexpr void word(uint64_t value) {
    lo_ = std::rotl((lo_ ^ (value * 0x9fb21c651e98df25U)) * 0xd6e8feb86659fd93U, 31) + hi_;
    hi_ = std::rotl((hi_ ^ std::rotl(value, 29)) * 0x9e3779b97f4a7c15U, 33) + lo_;
    ++count_;
  }

  uint64_t lo_ = 0x243f6a8885a308d3U;
  uint64_t hi_ = 0x13198a2e03707344U;
  uint64_t count_ = 0;
};

Hash128 hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);
inline Hash128 hash_bytes(std::string_view text, uint64_t seed = 0) {
  return hash_bytes(std::as_bytes(std::span(text)), seed);
}

}  // namespace mstrain

template <>
struct std::hash<mstrain::Hash128> {
  size_t operator()(const mstrain::Hash128& h) const noexcept {
    return static_cast<size_t>(h.lo ^ std::rotl(h.hi, 32));
  }
};
