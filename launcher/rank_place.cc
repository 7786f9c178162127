#include "launcher/rank_place.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <tuple>
#include <vector>

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

int core_fact(int processor, const char* fact) {
  int value = 0;
  std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", processor, fact)) >> value;
  return value;
}

// Threads of one core stand together.
std::vector<int> by_core(const cpu_set_t& set) {
  std::vector<std::tuple<int, int, int>> places;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) {
      places.emplace_back(core_fact(i, "physical_package_id"), core_fact(i, "core_id"), i);
    }
  }
  std::sort(places.begin(), places.end());
  std::vector<int> out;
  for (const auto& [package, core, processor] : places) {
    out.push_back(processor);
  }
  return out;
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

int processors_here() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int shared_processors() {
  cpu_set_t set;
  return sched_getaffinity(getppid(), sizeof set, &set) == 0 ? CPU_COUNT(&set) : processors_here();
}

void take_own_processors(const RankPlace& place) {
  cpu_set_t mine;
  cpu_set_t parents;
  if (place.ranks_here < 2 || sched_getaffinity(0, sizeof mine, &mine) != 0 ||
      sched_getaffinity(getppid(), sizeof parents, &parents) != 0 || !CPU_EQUAL(&mine, &parents)) {
    return;
  }
  const std::vector<int> all = by_core(mine);
  const auto count = static_cast<int>(all.size());
  const int ranks = std::min(place.ranks_here, count);
  const int turn = place.here % ranks;
  cpu_set_t own;
  CPU_ZERO(&own);
  for (int i = count * turn / ranks; i < count * (turn + 1) / ranks; ++i) {
    CPU_SET(all[static_cast<size_t>(i)], &own);
  }
  sched_setaffinity(0, sizeof own, &own);  // where it may not, the ranks share all of them
}

}  // namespace mstrain::launcher
