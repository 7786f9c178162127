#include "core/data/shuffle.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

__extension__ using Wide = unsigned __int128;

uint64_t scaled(uint64_t bits, uint64_t n) { return static_cast<uint64_t>((Wide{bits} * n) >> 64); }

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t stream, uint64_t epoch)
    : size_(static_cast<uint64_t>(size)) {
  check(size >= 1 && size <= int64_t{1} << 62, "cannot shuffle {} items", size);
  rows_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(size)));
  while (rows_ * rows_ < size_) {
    ++rows_;
  }
  columns_ = (size_ + rows_ - 1) / rows_;
  for (uint64_t i = 0; i < keys_.size(); i += 2) {
    // Philox gives one epoch and stream 128 bits a call; the call's number goes into the key.
    const PhiloxCounter bits =
        philox(philox_counter(epoch, stream), philox_key(seed + i * 0x9e3779b97f4a7c15U));
    keys_[i] = bits[0] | uint64_t{bits[1]} << 32;
    keys_[i + 1] = bits[2] | uint64_t{bits[3]} << 32;
  }
}

int64_t Permutation::operator()(int64_t index) const {
  auto at = static_cast<uint64_t>(index);
  check(index >= 0 && at < size_, "index {} is outside a permutation of {}", index, size_);
  do {
    uint64_t row = at / columns_;
    uint64_t column = at % columns_;
    for (size_t i = 0; i < keys_.size(); i += 2) {
      row += scaled(hash_mix(column * 0x9e3779b97f4a7c15U ^ keys_[i]), rows_);
      row -= row >= rows_ ? rows_ : 0;
      column += scaled(hash_mix(row * 0x9e3779b97f4a7c15U ^ keys_[i + 1]), columns_);
      column -= column >= columns_ ? columns_ : 0;
    }
    at = row * columns_ + column;
  } while (at >= size_);
  return static_cast<int64_t>(at);
}

// Source s takes a share p of the samples that the sources before it leave: of the first n of
// those, floor(n p) are its own, so it gives number i where that count grows at i, and the rest
// passes the others as number i - floor(i p).
Blend::Blend(std::span<const double> weights) {
  check(!weights.empty(), "a blend needs at least one source");
  for (const double weight : weights) {
    check(std::isfinite(weight) && weight > 0, "a blend's weights must be positive, not {}",
          weight);
  }
  double rest = 0;
  for (size_t i = weights.size(); i-- > 0;) {
    rest += weights[i];
    shares_.insert(shares_.begin(), static_cast<uint64_t>(std::ldexp(weights[i] / rest, 62)));
  }
}

Blend::Place Blend::locate(int64_t sample) const {
  check(sample >= 0, "there is no sample {}", sample);
  auto at = static_cast<uint64_t>(sample);
  for (size_t s = 0; s + 1 < shares_.size(); ++s) {
    const auto own = static_cast<uint64_t>((Wide{at} * shares_[s]) >> 62);
    const auto own_after = static_cast<uint64_t>((Wide{at + 1} * shares_[s]) >> 62);
    if (own_after > own) {
      return {static_cast<int>(s), static_cast<int64_t>(own)};
    }
    at -= own;
  }
  return {static_cast<int>(shares_.size()) - 1, static_cast<int64_t>(at)};
}

uint64_t random_stream(std::string_view name, int64_t index) {
  return Hasher().add(name).add(index).finish().lo;
}

}  // namespace mstrain
