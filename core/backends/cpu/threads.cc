#include "core/backends/cpu/threads.h"

#include <fmt/format.h>
#include <omp.h>

#include "core/base/error.h"
#include "core/base/isa.h"
#include "core/runtime/denormals.h"

namespace mstrain::cpu {

void prepare_threads(int threads) {
  thread_local int prepared = 0;  // a caller keeps its team between parallel regions
  if (prepared >= threads) {
    return;
  }
  isa();  // throws here where the machine will not do, not inside a kernel's threads
  // Kernels, and libraries that they call, cut their work for the team that they ask for: of a smaller one parts would be left.
  omp_set_dynamic(0);
  int team = 0;
#pragma omp parallel num_threads(threads) reduction(+ : team)
  {
    flush_denormals();
    ++team;
  }
  if (team < threads) {
    throw ConfigError(
        fmt::format("run.threads: OpenMP starts {} of {} threads, with an OMP_THREAD_LIMIT of {}; "
                    "set that to {}, or run.threads to {}",
                    team, threads, omp_get_thread_limit(), threads, team));
  }
  prepared = threads;
}

}  // namespace mstrain::cpu
