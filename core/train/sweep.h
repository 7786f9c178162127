// Runs the trials of a sweep one after the other, each in a run directory of its own below the sweep's:
//   sweep.yaml         the configuration with its sweep, which must stay the same while the sweep goes on
//   sweep.json         the trials with values, status and result
//   report.html        table and parallel coordinates above the curves of all runs
//   runs/000/ …        a run directory each
// What is done is read from the run directories: a sweep that was killed goes on where it stopped, in the middle of a run too.
#pragma once

#include <atomic>
#include <functional>

#include "core/train/session.h"
#include "core/train/sweep_trials.h"

namespace mstrain {

inline constexpr const char* kSweepRuns = "runs";
inline constexpr const char* kSweepFile = "sweep.json";
inline constexpr const char* kSweepConfigFile = "sweep.yaml";

struct TrialResult {
  SweepTrial trial;
  std::string status;           // "waiting", or that of its run.json
  std::string reason;           // of a failure
  int64_t step = 0;             // that `value` is of
  int64_t rung = 0;             // that it is the answer for
  std::optional<double> value;  // of sweep.metric
  int64_t predictions = 0;      // over how many it is a mean, where that is known
};

struct SweepResult {
  std::vector<TrialResult> trials;
  std::optional<size_t> best;
  bool interrupted = false;
};

class Sweep {
 public:
  // Trains the trial, under name_of() and in directory_of(), up to step `until`. A run that is there goes on, or, where there is `cleared`,
  // which is called then, is removed when the new one begins.
  using Run = std::function<Outcome(const SweepTrial& trial, int64_t until,
                                    const std::function<void()>& cleared)>;

  using Resolve = std::function<YamlNode(const YamlNode& tree)>;

  // `resolved` is the whole configuration with its sweep. All references must outlive it. `resolve`: as SessionStart::with_defaults.
  Sweep(FileSystem& files, SweptRun swept, const SweepConfig& sweep, const YamlNode& resolved,
        Resolve resolve = nullptr);

  // What there is, before anything runs.
  const std::vector<TrialResult>& trials() const { return trials_; }
  const std::vector<int64_t>& rungs() const { return rungs_; }
  std::string directory_of(const SweepTrial& trial) const;
  std::string name_of(const SweepTrial& trial) const;
  // The configuration of a trial, where `tree` is the one with the sweep.
  YamlNode tree_of_trial(const YamlNode& tree, const SweepTrial& trial) const {
    return tree_of(tree, sweep_, trial, name_of(trial), directory_of(trial));
  }
  // Which runs there will be, and how far each of them is: lines for people.
  std::string describe_runs() const;
  // What `result` came to, likewise.
  std::string describe_result(const SweepResult& result) const;
  // Throws Error, which names them, where runs of a sweep that came to its end have failed, or none has a result.
  void check_result(const SweepResult& result) const;

  // Throws ConfigError where the folder holds a run that is no sweep, or, unless it is to `restart`, another sweep.
  void check_same(bool restart) const;

  // `restart`: what an earlier sweep wrote is removed when the first of the new runs begins; where none does, it stays, and what kept the last one
  // from it is thrown. What takes its time between two runs is done by `aside`. A run that fails with an Error has no result, unless it had measured
  // what a halving compares it by, and the sweep goes on; it is tried again when the sweep is. Throws ConfigError where the folder holds another
  // sweep, Error where another process is at work in it, and CommError as a run does.
  using Aside = std::function<void(const std::function<void()>& work)>;
  SweepResult run(
      const Run& run, const std::atomic<bool>& stop, bool restart,
      const Aside& aside = [](const std::function<void()>& work) { work(); });

 private:
  // A sweep begins: with nothing here but the run that began.
  void begin(const SweepTrial& trial) const;
  // The value that the trial's run has measured at `rung` or next after it, or at its end before. Returns whether it has made that
  // evaluation, which may have measured no number.
  bool read_value(TrialResult& trial, int64_t rung) const;
  // Warns where results are means over different numbers of predictions.
  void compare_predictions() const;
  std::vector<size_t> promoted(const std::vector<size_t>& of) const;
  void write(const char* status) const;
  std::optional<size_t> best() const;

  FileSystem& files_;
  SweptRun swept_;
  const SweepConfig& sweep_;
  const YamlNode& resolved_;
  Resolve resolve_;
  Monitor monitor_;
  std::vector<int64_t> rungs_;
  std::vector<TrialResult> trials_;
};

// Ends a run, to go on later, where it has done `step` steps and what is due there.
class StopAtStep final : public Callback {
 public:
  explicit StopAtStep(int64_t step) : step_(step) {}
  bool wants(int64_t step, Moment moment) override {
    return moment == Moment::kStep && step == step_;
  }
  void on_state(Trainer& trainer, Moment) override;

 private:
  int64_t step_;
};

}  // namespace mstrain
