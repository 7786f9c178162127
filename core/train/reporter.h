// Keeps run.json, metrics.csv and report.html up to date as a run goes. Every rank tells what it takes; the first writes.
#pragma once

#include "core/train/early_stopping.h"
#include "core/train/evaluation.h"
#include "core/train/run_record.h"
#include "core/train/saver.h"

namespace mstrain {

class Reporter final : public Callback {
 public:
  // All arguments must outlive it.
  Reporter(const RunDirectory& directory, const TrainConfig& config, const RunPlan& plan,
           const RunStart& start, const Evaluation& evaluation, const Saver& saver);

  // When there may be something new to see: after evaluations, every kReportSteps steps where there are none, and at the end.
  bool wants(int64_t step, Moment moment) override;
  void on_state(Trainer& trainer, Moment moment) override;
  void on_stop(Trainer& trainer) override;  // the last rows are there only now

  // It may put other weights back at the end. It must outlive this.
  void follow(const EarlyStopping& rule) { early_stopping_ = &rule; }
  void began(int64_t step);
  int64_t memory_before() const { return record_.memory_before(); }
  // The run ended by an error. What cannot be written is logged: the error that came first is the one to be told.
  void failed(int64_t step, const std::string& reason) noexcept;

 private:
  void write(int64_t step, const char* status, const std::string& reason);
  void ask_ranks();

  const RunDirectory& directory_;
  const TrainConfig& config_;
  const Evaluation& evaluation_;
  const Saver& saver_;
  const EarlyStopping* early_stopping_ = nullptr;
  RunRecord record_;
  int64_t reported_ = -1;
  const char* status_ = kStatusRunning;
};

}  // namespace mstrain
