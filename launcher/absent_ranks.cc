#include "launcher/absent_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "core/base/yaml_scalar.h"
#include "core/comm/mpi_peers.h"

namespace mstrain::launcher {
namespace {

using std::chrono::seconds;

constexpr std::chrono::milliseconds kLook{500};
constexpr int kLooksForTheDead = 2;        // one that comes this moment is in neither place
constexpr seconds kMpirunStartsWithin{5};  // all of them after the first
constexpr seconds kLeastStart{30};

// Of `name` in what /proc/PID/environ says: words, each ended by '\0'.
std::optional<std::string> value_of(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view word = environment.substr(0, environment.find('\0'));
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=') {
      return std::string(word.substr(name.size() + 1));
    }
    environment.remove_prefix(std::min(environment.size(), word.size() + 1));
  }
  return std::nullopt;
}

// By rank. What has ended, and what is another user's, reads as nothing.
std::map<int, pid_t> processes_with(const std::string& link) {
  std::map<int, pid_t> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto pid = yaml_scalar::parse_int(entry.path().filename().string());
    if (!pid) {
      continue;
    }
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment(std::istreambuf_iterator<char>(file), {});
    const auto rank = value_of(environment, "OMPI_COMM_WORLD_RANK");
    const auto number = rank ? yaml_scalar::parse_int(*rank) : std::nullopt;
    if (number && value_of(environment, kLinkVariable) == link) {
      out.emplace(static_cast<int>(*number), static_cast<pid_t>(*pid));
    }
  }
  return out;
}

std::string with_pid(int rank, pid_t pid) {
  return pid == 0 ? fmt::format("rank {}", rank) : fmt::format("rank {} (pid {})", rank, pid);
}

}  // namespace

AbsentRanks::AbsentRanks(std::string link, int ranks, double timeout_s)
    : link_(std::move(link)),
      ranks_(ranks),
      stopped_may_take_(timeout_s),
      start_may_take_(std::max<std::chrono::duration<double>>(kLeastStart, stopped_may_take_)) {}

const std::string& AbsentRanks::look(std::span<const StartedRank> came) {
  const auto now = Clock::now();
  if (now - looked_ < kLook || !fault_.empty()) {
    return fault_;
  }
  looked_ = now;
  std::set<int> here;
  std::map<int, pid_t> waiting;  // that have come and not joined
  for (const StartedRank& rank : came) {
    here.insert(rank.rank);
    if (!rank.joined && rank.socket >= 0) {
      waiting.emplace(rank.rank, rank.pid);
    }
  }
  const auto joined = static_cast<size_t>(
      std::count_if(came.begin(), came.end(), [](const auto& rank) { return rank.joined; }));
  std::map<int, pid_t> present;
  if (here.size() < static_cast<size_t>(ranks_)) {
    present = processes_with(link_);
    std::erase_if(present, [&](const auto& each) { return here.contains(each.first); });
  }
  if (present != present_ || joined != joined_ || here.size() != came_) {
    changed_ = now;
  }
  present_ = std::move(present);
  joined_ = joined;
  came_ = here.size();
  const auto unchanged = now - changed_;

  std::vector<std::string> ended, stopped, late;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (const auto found = present_.find(rank); found != present_.end()) {
      seen_.insert(*found);
      missed_[rank] = 0;
    } else if (!here.contains(rank)) {
      const bool was_there = seen_.contains(rank);
      const bool any_is = !here.empty() || !present_.empty();
      if (was_there ? ++missed_[rank] >= kLooksForTheDead
                    : any_is && unchanged > kMpirunStartsWithin) {
        ended.push_back(with_pid(rank, was_there ? seen_.at(rank) : 0));
      }
    }
  }
  waiting.insert(present_.begin(), present_.end());
  for (const auto& [rank, pid] : waiting) {
    (is_stopped(pid) ? stopped : late).push_back(with_pid(rank, pid));
  }
  if (!ended.empty()) {
    fault_ = fmt::format("{} died before the ranks had met", fmt::join(ended, ", "));
  } else if (!stopped.empty() && unchanged > stopped_may_take_) {
    fault_ = fmt::format("{}: stopped before the ranks had met (parallel.timeout_s: {:g})",
                         fmt::join(stopped, ", "), stopped_may_take_.count());
  } else if (unchanged > start_may_take_) {
    fault_ = fmt::format("{:g} s brought the ranks no nearer to each other: {} still on the way",
                         start_may_take_.count(),
                         late.empty() ? "all" : fmt::to_string(fmt::join(late, ", ")));
  }
  return fault_;
}

}  // namespace mstrain::launcher
