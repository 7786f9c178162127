#include "core/comm/mpi_peers.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/base/processors.h"

namespace mstrain {

bool ProcessPlace::sees(const ProcessPlace& other) const {
  return boot[0] != '\0' && std::strcmp(boot, other.boot) == 0 && processes != 0 &&
         processes == other.processes;
}

ProcessPlace this_place() {
  ProcessPlace place;
  gethostname(place.host, sizeof place.host - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::memcpy(place.boot, boot.data(), std::min(boot.size(), sizeof place.boot - 1));
  struct stat space {};
  place.processes = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
  place.pid = getpid();
  place.processors = own_processors();
  return place;
}

bool is_stopped(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] == 'T';
}

MpiPeers::MpiPeers(std::vector<ProcessPlace> places, int rank)
    : places_(std::move(places)), rank_(rank) {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (static_cast<int>(i) == rank_ || !places_[static_cast<size_t>(rank_)].sees(places_[i])) {
      continue;
    }
    const long watch = syscall(SYS_pidfd_open, static_cast<pid_t>(places_[i].pid), 0);
    if (watch >= 0 || errno == ESRCH) {  // else the system cannot watch: its silence will tell
      watched_[static_cast<int>(i)] = static_cast<int>(watch);
    }
  }
}

MpiPeers::~MpiPeers() {
  for (const auto& [rank, watch] : watched_) {
    if (watch >= 0) {
      close(watch);
    }
  }
}

std::vector<int> MpiPeers::dead() const {
  std::vector<int> out;
  for (const auto& [rank, watch] : watched_) {
    pollfd ended{watch, POLLIN, 0};
    if (watch < 0 || poll(&ended, 1, 0) > 0) {
      out.push_back(rank);
    }
  }
  return out;
}

bool MpiPeers::is_stopped(int rank) const {
  return watched_.contains(rank) && mstrain::is_stopped(places_[static_cast<size_t>(rank)].pid);
}

bool MpiPeers::take_turns() const {
  cpu_set_t all;
  CPU_ZERO(&all);
  int processes = 0;
  for (const ProcessPlace& place : places_) {
    if (places_[static_cast<size_t>(rank_)].sees(place)) {
      CPU_OR(&all, &all, &place.processors);
      ++processes;
    }
  }
  return processes > CPU_COUNT(&all);
}

std::string MpiPeers::describe(int rank) const {
  const ProcessPlace& place = places_[static_cast<size_t>(rank)];
  return fmt::format("rank {} (pid {} on {})", rank, place.pid, place.host);
}

std::string describe_ranks(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    out += i == 0 ? "" : ", ";
    out += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace mstrain
