// run.json: what ran where, how it was started each time, and how far it came.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/train/callback.h"
#include "core/train/planned_run.h"
#include "core/train/run_directory.h"
#include "core/train/saver.h"

namespace mstrain {

inline constexpr const char* kStatusRunning = "running";
inline constexpr const char* kStatusFinished = "finished";
inline constexpr const char* kStatusInterrupted = "interrupted";
inline constexpr const char* kStatusFailed = "failed";
inline constexpr const char* kStatusStopped = "stopped";  // by kill -9: the run could not say so
inline constexpr const char* kStatusLeftBehind =
    "left behind";  // by a sweep that goes on with others
inline constexpr const char* kStoppedReason = "without a word; the same command goes on";

// Where a run ended with the weights of an earlier step than its last evaluation measured: that step.
inline constexpr const char* kWeightsOf = "weights_of_step";

// A start of a run: the first one, or one that goes on.
struct RunStart {
  int64_t step = 0;
  std::vector<std::string> command;  // with the program's name
  std::vector<KeyChange> changes;    // of keys, against the start before
};

struct RunState {
  int64_t step = 0;
  std::string status;
  std::string reason{};  // of a failure, or why a rule ended the run
  std::vector<Metric> metrics{};
  std::optional<Saver::Best> best{};
  std::optional<int64_t>
      weights_of{};  // the step whose weights the run ended with, if not its last
};

// What `record`, run.json or sweep.json of `directory`, says of a run whose process is gone: "stopped" in place of "running".
// The process may be that of another machine, which is not asked.
void tell_whether_stopped(FileSystem& files, const std::string& directory, Json& record);

// Notes in run.json of `directory` that its run, which stopped at `step`, was left behind.
void leave_behind(FileSystem& files, const std::string& directory, int64_t step);

class RunRecord {
 public:
  // Adds `start` to the history that run.json holds; one that cannot be read is begun anew, with a warning. All arguments
  // must outlive it.
  RunRecord(const RunDirectory& directory, const TrainConfig& config, const RunPlan& plan,
            const RunStart& start);

  // Writes the file atomically. Throws IoError.
  void write(const RunState& state);

  // What this process takes, as the file says it; and what each of the run's ranks said of itself, by rank.
  OrderedJson memory() const;
  void note_ranks(const std::vector<std::string>& memories);

  // Resident when the record began: the program, its data and plans, without what the plan counts.
  int64_t memory_before() const { return memory_before_; }

 private:
  const RunDirectory& directory_;
  const TrainConfig& config_;
  const RunPlan& plan_;
  int64_t memory_before_;
  OrderedJson history_ = OrderedJson::array();
  OrderedJson ranks_ = OrderedJson::array();
};

}  // namespace mstrain
