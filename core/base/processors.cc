#include "core/base/processors.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <tuple>
#include <vector>

namespace mstrain {
namespace {

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

cpu_set_t own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    CPU_ZERO(&set);
  }
  return set;
}

int processors_here() {
  const cpu_set_t set = own_processors();
  return std::max(1, CPU_COUNT(&set));
}

int counted_processors() {
  static const int kProcessors = processors_here();
  return kProcessors;
}

cpu_set_t share_of(const cpu_set_t& all, int n, int count) {
  const std::vector<int> places = by_core(all);
  const auto size = static_cast<int>(places.size());
  const int shares = std::min(count, size);
  cpu_set_t own;
  CPU_ZERO(&own);
  if (shares > 0) {
    const int share = n % shares;
    for (int i = size * share / shares; i < size * (share + 1) / shares; ++i) {
      CPU_SET(places[static_cast<size_t>(i)], &own);
    }
  }
  return own;
}

}  // namespace mstrain
