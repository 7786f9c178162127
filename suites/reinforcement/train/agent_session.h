// One run of an agent, from where a checkpoint left it. Private to session*.cc.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/files_silent.h"
#include "core/io/events.h"
#include "core/train/metrics_log.h"
#include "core/train/run_record.h"
#include "suites/reinforcement/train/live_line.h"
#include "suites/reinforcement/train/session.h"

namespace mstrain::reinforcement {

class AgentSession {
 public:
  AgentSession(const RunRequest& request, const Config& config, const std::shared_ptr<Ranks>& ranks,
               std::optional<int64_t> until)
      : request_(request),
        config_(config),
        ranks_(ranks.get()),
        first_(is_first(ranks_)),
        silent_(request.files),
        files_(first_ ? request.files : static_cast<FileSystem&>(silent_)),
        resolved_(write_config(config)),
        total_(config.schedule.total_env_steps),
        until_(until) {}

  Finished run();

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // mstrain::work_together() for what some ranks are longer at than others may wait. Who fails says why, and leaves; the others learn it
  // where they next meet.
  void work_together(std::string_view what, const std::function<void()>& work);
  std::optional<std::string> previous_checkpoint();
  void restore(const std::string& folder);
  void open_logs();
  bool is_over() const { return env_steps_ >= total_ || stopped_; }
  // Its last evaluation, where there are any, is made.
  bool is_complete() const {
    return is_over() && (config_.eval.interval.is_word() || evaluated_ == env_steps_);
  }
  bool asks_for_more() const;
  void log_row(const Iteration& iteration, bool last);
  void evaluate_now();
  std::string state() const;
  void save();
  void report(const char* status, const std::string& reason = "");
  void loop();
  double wall_seconds() const { return wall_before_ + seconds_since(began_); }

  const RunRequest& request_;
  const Config& config_;
  Ranks* ranks_;
  bool first_;
  SilentFiles silent_;
  FileSystem& files_;
  YamlNode resolved_;
  int64_t total_;
  std::optional<int64_t> until_;

  std::unique_ptr<RunDirectory> directory_;
  std::unique_ptr<Agent> agent_;
  AgentPlan plan_;
  TrainConfig record_config_;  // as the record of runs takes it
  RunPlan record_plan_;
  std::unique_ptr<RunRecord> record_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<MetricsFile> looks_;  // at evaluations
  std::unique_ptr<EventsWriter> events_;
  std::unique_ptr<LiveLine> line_;

  EpisodeLog episodes_;
  int64_t env_steps_ = 0;
  int64_t iterations_ = 0;
  int64_t logged_ = 0, evaluated_ = 0, saved_ = -1;  // env_steps_ then
  int64_t resumed_ = 0;                              // env_steps_ when this process began
  int64_t evaluations_ = 0;                          // so far
  int64_t met_ = 0;                                  // env_steps_ when all ranks were last together
  bool stopped_ = false;                             // by eval.stop_at_return
  std::optional<double> eval_return_;
  bool interrupted_ = false;

  Clock::time_point began_ = Clock::now(), saved_at_ = Clock::now(), row_at_ = Clock::now();
  double wall_before_ = 0;
  double away_ = 0;  // seconds since the last row that were no training
  double rate_ = 0;
};

}  // namespace mstrain::reinforcement
