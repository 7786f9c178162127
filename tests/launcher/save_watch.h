// Watches what a run saves from outside, to do something to it at a moment that is counted in its own progress: moments are
// then as well spread on a busy machine as on an idle one.
#pragma once

#include <chrono>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/train/checkpoint.h"
#include "tests/launcher/command.h"

namespace mstrain {

inline void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

inline std::vector<int64_t> checkpoints_of(const std::string& directory) {
  return list_checkpoints(real_files(), join_path(directory, "checkpoints"));
}

// `Run`: ended(), and wait() then.
class SaveWatch {
 public:
  explicit SaveWatch(std::string directory)
      : directory_(std::move(directory)), before_(folders()) {}

  // Until `count` checkpoints have been added.
  template <class Run>
  void await_checkpoints(Run& run, size_t count) const {
    std::set<std::string> added;
    await(run, [&] {
      for (const std::string& name : folders()) {
        if (!is_unfinished(name) && !before_.contains(name)) {
          added.insert(name);
        }
      }
      return added.size() >= count;
    });
  }

  // Until SIGSTOP by `signal` has stopped whoever writes inside a save, `delay` seconds after it began or sooner.
  template <class Run, class Signal>
  void stop_inside_a_save(Run& run, double delay, const Signal& signal) const {
    await(run, [&] {
      if (!is_saving()) {
        return false;
      }
      sleep(delay);
      signal(SIGSTOP);
      if (is_saving()) {
        return true;
      }
      signal(SIGCONT);
      delay /= 2;  // it was over
      return false;
    });
  }

 private:
  std::set<std::string> folders() const {
    const std::string path = join_path(directory_, "checkpoints");
    if (!real_files().is_directory(path)) {
      return {};
    }
    const std::vector<std::string> names = real_files().list(path);
    return {names.begin(), names.end()};
  }
  static bool is_unfinished(const std::string& name) {
    return name.find(".tmp-") != std::string::npos;
  }
  // A folder that a killed process left does not count.
  bool is_saving() const {
    for (const std::string& name : folders()) {
      if (is_unfinished(name) && !before_.contains(name)) {
        return true;
      }
    }
    return false;
  }

  template <class Run, class Condition>
  static void await(Run& run, const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (run.ended()) {
        fail("the run ended: {}", run.wait().err);
      }
      check(std::chrono::steady_clock::now() < deadline, "the run does not get on");
      sleep(0.0001);
    }
  }

  std::string directory_;
  std::set<std::string> before_;
};

}  // namespace mstrain
