#include "launcher/rank_place.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/base/processors.h"
#include "core/base/yaml_scalar.h"

namespace mstrain::launcher {
namespace {

std::optional<int> number(const char* variable) {
  const char* text = std::getenv(variable);
  const auto value = text == nullptr ? std::nullopt : yaml_scalar::parse_int(text);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

// One family of starters.
struct Variables {
  const char *rank, *ranks, *here, *ranks_here;
};
constexpr Variables kStarters[] = {
    // Open MPI's mpirun
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    // MPICH's and Intel's mpiexec
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    // srun: a batch script itself is in no step
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"}};

// What the process that started this one may use.
cpu_set_t parents_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(getppid(), sizeof set, &set) == 0 ? set : own_processors();
}

}  // namespace

RankPlace rank_place() {
  for (const Variables& variables : kStarters) {
    const auto rank = number(variables.rank);
    const auto ranks = number(variables.ranks);
    if (rank && ranks && *ranks > 1) {
      return {*rank, *ranks, number(variables.here).value_or(0),
              std::max(1, number(variables.ranks_here).value_or(1))};
    }
  }
  return {};
}

int shared_processors() {
  const cpu_set_t set = parents_processors();
  return CPU_COUNT(&set);
}

void take_own_processors(const RankPlace& place) {
  const cpu_set_t mine = own_processors();
  const cpu_set_t parents = parents_processors();
  if (place.ranks_here > 1 && CPU_EQUAL(&mine, &parents)) {
    const cpu_set_t own = share_of(mine, place.here, place.ranks_here);
    sched_setaffinity(0, sizeof own, &own);  // where it may not, the ranks share all of them
  }
}

void take_turns(const RankPlace& place) {
  const cpu_set_t mine = own_processors();
  const cpu_set_t parents = parents_processors();
  const cpu_set_t taken = share_of(parents, place.here, place.ranks_here);
  if (place.ranks_here > CPU_COUNT(&parents) && CPU_EQUAL(&mine, &taken)) {
    sched_setaffinity(0, sizeof parents, &parents);
  }
}

}  // namespace mstrain::launcher
