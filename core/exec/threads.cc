#include "core/exec/threads.h"

#include <omp.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "core/base/isa.h"

namespace mstrain {
namespace {

void flush_denormals() {
#if defined(__SSE2__)
  constexpr unsigned kFlushToZero = 0x8000U;
  constexpr unsigned kDenormalsAreZero = 0x0040U;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

}  // namespace

void prepare_threads(int threads) {
  thread_local int prepared = 0;  // a caller keeps its team between parallel regions
  if (prepared >= threads) {
    return;
  }
  isa();  // throws here where the machine will not do, not inside a kernel's threads
#pragma omp parallel num_threads(threads)
  flush_denormals();
  prepared = threads;
}

}  // namespace mstrain
