// The clock that intervals are measured with.
#pragma once

#include <chrono>
#include <cstdint>

namespace mstrain {

inline int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
inline int64_t nanoseconds_now() { return nanoseconds(std::chrono::steady_clock::now()); }

}  // namespace mstrain
