// Jobs of several processes, as `mstrain --ranks` starts them.
#pragma once

#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "tests/launcher/command.h"

namespace mstrain {

// Long enough that no run ends before what is done to it.
inline constexpr const char* kLong = "schedule.total_steps=2000000000";

inline void sleep_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

inline std::vector<std::string> with_ranks(std::vector<std::string> arguments, int ranks) {
  arguments.insert(arguments.end(), {"--ranks", std::to_string(ranks)});
  return arguments;
}

// A job of processes that `mstrain --ranks` has started.
class RunningJob {
 public:
  RunningJob(const std::vector<std::string>& arguments, int ranks, std::string directory)
      : directory_(std::move(directory)), ranks_(ranks), command_(with_ranks(arguments, ranks)) {}

  // Until it has written so much more of its metrics.
  void await_steps() {
    const std::string metrics = join_path(directory_, "metrics.jsonl");
    const auto written = [&]() -> uint64_t {
      return real_files().exists(metrics) ? real_files().file_size(metrics) : 0;
    };
    const uint64_t before = written();
    while (written() < before + 1000) {
      expect_running();
      sleep_briefly();
    }
  }

  std::optional<pid_t> find_rank(int number) const {
    const std::string mine = fmt::format("MSTRAIN_STARTER=mstrain-{}-", command_.pid());
    const std::string rank = fmt::format("OMPI_COMM_WORLD_RANK={}", number);
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "environ", std::ios::binary);
      const std::string environment(std::istreambuf_iterator<char>(file), {});
      if (environment.find(mine) != std::string::npos &&
          environment.find(rank + '\0') != std::string::npos) {
        return static_cast<pid_t>(std::stol(entry.path().filename()));
      }
    }
    return std::nullopt;
  }
  // Throws where it is not there: what is sent to no process goes to all of them.
  pid_t rank(int number) const {
    const auto pid = find_rank(number);
    check(pid.has_value(), "rank {} is not there", number);
    return *pid;
  }
  // Until the rank is there, as another process than `before`.
  void await_rank(int number, pid_t before) {
    while (find_rank(number).value_or(before) == before) {
      expect_running();
      sleep_briefly();
    }
  }
  std::vector<pid_t> all_ranks() const {
    std::vector<pid_t> out;
    for (int i = 0; i < ranks_; ++i) {
      out.push_back(rank(i));
    }
    return out;
  }
  pid_t pid() const { return command_.pid(); }
  bool ended() { return command_.ended(); }
  void signal(int number) const { command_.signal(number); }
  CommandResult wait() { return command_.wait(); }

 private:
  void expect_running() { check(!ended(), "the job ended: {}", ended() ? wait().err : ""); }

  std::string directory_;
  int ranks_;
  RunningCommand command_;
};

inline void expect_gone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    EXPECT_NE(kill(pid, 0), 0) << pid << " was left behind";
  }
}

}  // namespace mstrain
