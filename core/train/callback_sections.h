// Keys of what reacts to how a run goes: see docs/training.md.
#pragma once

#include "core/optim/optimizer_config.h"
#include "core/optim/schedule.h"
#include "core/train/metrics.h"

namespace mstrain {

// eval.early_stopping
struct EarlyStoppingConfig {
  std::string monitor = kEvalLoss;
  MonitorMode mode = MonitorMode::kAuto;
  int64_t patience = 3;
  double min_delta = 0;
  std::optional<double> baseline;
  std::optional<double> target;
  bool restore_best = false;

  template <class V>
  void fields(V& v) {
    v("monitor", monitor, "metric of the evaluations");
    v("mode", mode, "whether less or more of it is better; auto: as the metric says",
      rule::one_of({"auto", "min", "max"}));
    v("patience", patience,
      "the run stops after so many evaluations in a row without improvement; 0 and 1: at the first",
      rule::at_least(0));
    v("min_delta", min_delta, "an improvement is more than this", rule::at_least(0));
    v("baseline", baseline, "an improvement counts only where it is better than this, too");
    v("target", target, "enough: the run stops at the first evaluation that is as good as this");
    v("restore_best", restore_best,
      "the run ends with the weights and the optimizer's state of its best evaluation");
  }
};

// schedule.reduce_on_plateau
struct ReduceOnPlateauConfig {
  std::string monitor = kEvalLoss;
  MonitorMode mode = MonitorMode::kAuto;
  double factor = 0.1;
  int64_t patience = 10;
  double min_delta = 1e-4;
  int64_t cooldown = 0;
  double min_lr = 0;

  template <class V>
  void fields(V& v) {
    v("monitor", monitor, "metric of the evaluations");
    v("mode", mode, "whether less or more of it is better; auto: as the metric says",
      rule::one_of({"auto", "min", "max"}));
    v("factor", factor, "times the learning rate that the schedule gives, from then on",
      rule::above(0).below(1));
    v("patience", patience, "evaluations in a row without improvement; 0 and 1: at the first",
      rule::at_least(0));
    v("min_delta", min_delta, "an improvement is more than this", rule::at_least(0));
    v("cooldown", cooldown, "evaluations after a reduction that are not counted",
      rule::at_least(0));
    v("min_lr", min_lr, "no reduction goes below this rate", rule::at_least(0));
  }
};

// optimizer.skip_spikes
struct SkipSpikesConfig {
  double deviations = 6;
  int64_t window = 128;

  template <class V>
  void fields(V& v) {
    v("deviations", deviations,
      "a step is skipped whose gradient norm lies so many standard deviations above the mean",
      rule::positive());
    v("window", window, "of so many norms before it", rule::at_least(2).at_most(4096));
  }
};

enum class NotFinite { kStop, kSkip };

// The `optimizer` section: the update rule, and when no update is made.
struct UpdateConfig : OptimizerConfig {
  NotFinite not_finite = NotFinite::kStop;
  std::optional<SkipSpikesConfig> skip_spikes;
  int64_t max_skipped = 10;

  template <class V>
  void fields(V& v) {
    OptimizerConfig::fields(v);
    v("not_finite", not_finite,
      "what a loss or gradient that is no finite number leads to: the end of the run, or a step "
      "without an update",
      rule::one_of({"stop", "skip"}));
    v("skip_spikes", skip_spikes, "skip steps whose gradient stands out");
    v("max_skipped", max_skipped, "more steps in a row are not skipped: the run ends",
      rule::at_least(1));
  }

  // Whether a step may leave parameters and optimizer as they were.
  bool may_skip() const { return not_finite == NotFinite::kSkip || skip_spikes.has_value(); }
};

// The `schedule` section: a function of the step, and what evaluations make of it.
struct RateConfig : ScheduleConfig {
  std::optional<ReduceOnPlateauConfig> reduce_on_plateau;

  template <class V>
  void fields(V& v) {
    ScheduleConfig::fields(v);
    v("reduce_on_plateau", reduce_on_plateau, "lower the rate when evaluations get no better");
  }
};

}  // namespace mstrain
