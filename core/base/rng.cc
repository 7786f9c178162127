#include "core/base/rng.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"

namespace mstrain {

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));  // 1 - u is in (0, 1]
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

// Lemire, "Fast random integer generation in an interval" (2019): the high half of a product, with the few low halves
// that would favour small results drawn again.
uint64_t Rng::below(uint64_t n) {
  check(n > 0, "Rng::below: the range is empty");
  for (;;) {
    const auto product = static_cast<unsigned __int128>(next_u64()) * n;
    const auto low = static_cast<uint64_t>(product);
    if (low >= n || low >= (0 - n) % n) {  // mostly without a division
      return static_cast<uint64_t>(product >> 64);
    }
  }
}

int64_t Rng::between(int64_t low, int64_t high) {
  check(low <= high, "Rng::between: {} > {}", low, high);
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const uint64_t offset = span == 0 ? next_u64() : below(span);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

}  // namespace mstrain
