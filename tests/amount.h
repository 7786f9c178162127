// How much the tests try of what is alike: the fast suite some, sanitizers fewer, MSTRAIN_LONG_TESTS all.
//
// Sanitizers ask whether every path touches memory as it may, which takes each path a few times and costs five to ten times as
// much. How often a path gives the right numbers is for the plain build to count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace mstrain {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline bool long_tests() { return std::getenv("MSTRAIN_LONG_TESTS") != nullptr; }

// Of random programs, seeds, positions or kills: how many of them. At least one.
inline int64_t repetitions(int64_t usual, int64_t all) {
  return long_tests() ? all : kSanitized ? std::max<int64_t>(1, usual / 8) : usual;
}
inline int64_t repetitions(int64_t usual) { return repetitions(usual, usual); }

// Of a list: every how manyth. `usual` should have no factor in common with what the list repeats.
inline int64_t stride(int64_t usual) {
  return long_tests() ? 1 : kSanitized ? 4 * usual - 1 : usual;
}

}  // namespace mstrain
