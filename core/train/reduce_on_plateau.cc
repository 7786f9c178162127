#include "core/train/reduce_on_plateau.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/state_fields.h"

namespace mstrain {

ReduceOnPlateau::ReduceOnPlateau(const ReduceOnPlateauConfig& config)
    : config_(config), monitor_(config.monitor, config.mode, config.min_delta) {}

void ReduceOnPlateau::on_start(Trainer& trainer) {
  trainer.scale_learning_rate(factor_, config_.min_lr);
}

void ReduceOnPlateau::on_evaluation(Trainer& trainer, const EvaluationRow& row) {
  const double value = monitor_.watch(row.step, row.metrics);
  const bool counts = cooling_ == 0;
  cooling_ -= counts ? 0 : 1;
  if (monitor_.better(value, best_)) {
    best_ = value;
    waited_ = 0;
  } else if (counts && ++waited_ >= config_.patience) {
    const double before = trainer.next_learning_rate();
    factor_ *= config_.factor;
    waited_ = 0;
    cooling_ = config_.cooldown;
    trainer.scale_learning_rate(factor_, config_.min_lr);
    if (const double now = trainer.next_learning_rate(); now < before) {
      log_info("step {}: {} is on a plateau, the learning rate falls to {:.4g}", row.step,
               config_.monitor, now);
    }
  }
}

Json ReduceOnPlateau::state() const {
  return {{"monitor", config_.monitor}, {"larger_is_better", monitor_.larger_is_better()},
          {"best", to_state(best_)},    {"waited", waited_},
          {"cooling", cooling_},        {"factor", factor_}};
}

void ReduceOnPlateau::restore(const Json& state) {
  best_ = state_optional(state, "best", kName);
  waited_ = state_count(state, "waited", kName);
  cooling_ = state_count(state, "cooling", kName);
  factor_ = state_number(state, "factor", kName);
  check(factor_ > 0 && factor_ <= 1, "{}: the saved factor is {}", kName, factor_);
  if (!state_is_of(monitor_, state, kName)) {
    best_.reset();  // what was seen of another metric, or is good the other way, says nothing
    waited_ = 0;
  }
}

}  // namespace mstrain
