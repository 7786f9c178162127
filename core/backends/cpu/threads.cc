#include "core/backends/cpu/threads.h"

#include <omp.h>

#include "core/base/isa.h"
#include "core/runtime/denormals.h"

namespace mstrain::cpu {

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

}  // namespace mstrain::cpu
