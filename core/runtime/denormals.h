// Denormal numbers of the calling thread.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace mstrain {

// From here on this thread treats denormal numbers as zero. Probabilities and moments near zero are denormal, and arithmetic
// on them is some hundred times slower.
inline void flush_denormals() {
#if defined(__SSE2__)
  constexpr unsigned kFlushToZero = 0x8000U;
  constexpr unsigned kDenormalsAreZero = 0x0040U;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

}  // namespace mstrain
