// Learning rates as functions of the step, computed on the host; the trainer passes them to the step as a tensor.
//
// `step` counts from 0: the first update uses learning_rate(config, peak, 0), the last one `total_steps - 1`.
//   step < warmup_steps: peak (step + 1) / (warmup_steps + 1), so that no update is wasted on a rate of 0
//   then, with lowest = peak min_lr_ratio and r = (step - warmup_steps) / (total_steps - warmup_steps) in [0, 1):
//     constant     peak
//     linear       lowest + (peak - lowest) (1 - r)
//     cosine       lowest + (peak - lowest) (1 + cos(pi r)) / 2
//     polynomial   lowest + (peak - lowest) (1 - r)^power
//     step         peak gamma^k, k = floor((step - warmup_steps) / step_size), at least lowest
//     wsd          peak until decay_steps before the end, then linear to lowest (warm-up, stable, decay)
//     plateau      peak gamma^k after k reductions (see LearningRate), at least lowest
//   step >= total_steps: lowest, but for constant, step and plateau, which go on.
// The rate is `peak` at step warmup_steps, and the lowest one would be reached at step total_steps. (This is nanoGPT's
// convention.)
#pragma once

#include "core/base/config.h"
#include "core/base/json.h"

namespace mstrain {

enum class ScheduleType { kConstant, kLinear, kCosine, kPolynomial, kStep, kWsd, kPlateau };

// The `schedule` section of a run.
struct ScheduleConfig {
  ScheduleType type = ScheduleType::kCosine;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1000;
  double min_lr_ratio = 0;
  double power = 1;
  std::optional<int64_t> step_size;
  double gamma = 0.1;
  std::optional<int64_t> decay_steps;
  int64_t patience = 3;

  template <class V>
  void fields(V& v) {
    v("type", type, "shape of the learning rate after the warm-up",
      rule::one_of({"constant", "linear", "cosine", "polynomial", "step", "wsd", "plateau"})
          .elsewhere_called({"lr_scheduler_type", "lr_scheduler", "decay_lr", "lr_decay_style"}));
    v("warmup_steps", warmup_steps, "steps of linear rise in front",
      rule::at_least(0)
          .elsewhere_called({"warmup_iters", "lr_warmup_iters", "num_warmup_steps"})
          .elsewhere_measured_by({"warmup_ratio"}));
    v("total_steps", total_steps, "steps of the whole run",
      rule::at_least(1)
          .at_most(2147483647)
          .elsewhere_called({"max_iters", "max_steps", "train_iters", "num_steps", "lr_decay_iters",
                             "num_training_steps"})
          .elsewhere_measured_by({"num_train_epochs", "num_epochs", "epochs"}));
    v("min_lr_ratio", min_lr_ratio, "lowest rate as a fraction of optimizer.lr",
      rule::at_least(0).at_most(1).elsewhere_measured_by({"min_lr"}));
    v("power", power, "polynomial: exponent of 1 - progress", rule::positive());
    v("step_size", step_size, "step: steps between two reductions by gamma", rule::at_least(1));
    v("gamma", gamma, "step, plateau: factor of one reduction", rule::above(0).below(1));
    v("decay_steps", decay_steps, "wsd: steps of linear decay at the end; null: a tenth",
      rule::at_least(1));
    v("patience", patience, "plateau: evaluations without a better loss before a reduction",
      rule::at_least(0));
  }
};

std::string_view name_of(ScheduleType type);

// What one key alone cannot tell. Throws ConfigError, with the line where `tree`, the whole configuration, is what
// `config` was read from.
void check_schedule_config(const ScheduleConfig& config, const YamlNode& tree = YamlNode());

// The rate of update `step` >= 0. Of a plateau: before any reduction.
double learning_rate(const ScheduleConfig& config, double peak, int64_t step);

// A schedule with what it has seen: reductions of a plateau depend on the evaluations so far. Save `state()` with the
// run, so that it goes on alike.
class LearningRate {
 public:
  LearningRate(const ScheduleConfig& config, double peak) : config_(config), peak_(peak) {}

  double at(int64_t step) const;
  // Tells the loss of an evaluation. Only a plateau listens: after more than `patience` evaluations in a row that are
  // not better than the best one, the rate falls by `gamma`.
  void observe(double loss);

  Json state() const;
  // Only a plateau takes it. Throws Error where `state` is not what state() writes.
  void restore(const Json& state);

 private:
  ScheduleConfig config_;
  double peak_;
  std::optional<double> best_;
  int64_t waited_ = 0;
  int64_t reductions_ = 0;
};

}  // namespace mstrain
