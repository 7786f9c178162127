// Records some steps of a run kernel by kernel, into profile.json of its directory. Every rank records; the first writes.
#pragma once

#include <functional>
#include <vector>

#include "core/train/profile.h"
#include "core/train/run_directory.h"
#include "core/train/trainer.h"

namespace mstrain {

class Profiler final : public Callback {
 public:
  // What the ranks do in a step as the plan has it, on rank 0, where there is one. Every rank calls it.
  using Planned = std::function<std::optional<Timeline>(const Context& context)>;

  // For a run that begins, or goes on, after step `begin`. All arguments must outlive the profiler.
  Profiler(const RunDirectory& directory, const TrainConfig& config, const StepProgram& program,
           int64_t begin, Planned planned);
  ~Profiler() override { stop(); }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void on_step(Trainer& trainer, const StepMetrics& metrics) override;
  bool wants(int64_t step, Moment moment) override;
  void on_state(Trainer& trainer, Moment moment) override;

 private:
  void record();
  void stop();
  void write();

  const RunDirectory& directory_;
  const TrainConfig& config_;
  const StepProgram& program_;
  int64_t first_, last_;  // steps to record
  bool done_;
  Planned planned_;
  RankRecord record_;
};

}  // namespace mstrain
