#include "core/train/early_stopping.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/state_fields.h"

namespace mstrain {

EarlyStopping::EarlyStopping(const EarlyStoppingConfig& config, Saver& saver)
    : config_(config), saver_(saver), monitor_(config.monitor, config.mode, config.min_delta) {}

namespace {

bool is_enough(const EarlyStoppingConfig& config, const std::optional<double>& best) {
  return config.target && best &&
         !Monitor(config.monitor, config.mode).better(*config.target, *best);
}

}  // namespace

bool EarlyStopping::has_enough() const { return is_enough(config_, best_); }

std::string EarlyStopping::reason() const {
  if (has_enough()) {
    return fmt::format("early stopping: {} {:.6g} at step {} is as good as the target, {:.6g}",
                       config_.monitor, *best_, best_step_, *config_.target);
  }
  const std::string best = best_ ? fmt::format("the best is {:.6g} at step {}", *best_, best_step_)
                                 : "none was a number";
  const bool lacks_baseline =
      config_.baseline && !(best_ && monitor_.better(*best_, *config_.baseline));
  const std::string wanted = lacks_baseline ? fmt::format("{} better than the baseline, {:.6g}",
                                                          config_.monitor, *config_.baseline)
                                            : "a better " + config_.monitor;
  return fmt::format("early stopping: {} evaluation{} without {}; {}", waited_,
                     waited_ == 1 ? "" : "s", wanted, best);
}

void EarlyStopping::on_start(Trainer& trainer) {
  if (config_.restore_best && best_) {
    saver_.keep(kName, best_step_);
  }
  ended_ = false;  // by a configuration that was more patient since
  if (is_over()) {
    trainer.end(Trainer::End::kFinished, reason());
  }
}

void EarlyStopping::on_evaluation(Trainer& trainer, const EvaluationRow& row) {
  const double value = monitor_.watch(row.step, row.metrics);
  bool improved = monitor_.better(value, best_) || is_enough(config_, value);
  if (improved) {
    best_ = value;
    best_step_ = row.step;
    if (config_.restore_best) {
      saver_.keep(kName, row.step);
    }
    improved = !config_.baseline || monitor_.better(value, *config_.baseline);
  }
  waited_ = improved ? 0 : waited_ + 1;
  if (is_over()) {
    trainer.end(Trainer::End::kFinished, reason());
  }
}

bool EarlyStopping::wants(int64_t, Moment moment) { return moment == Moment::kFinished; }

void EarlyStopping::on_state(Trainer& trainer, Moment) {
  if (is_over()) {
    ended_ = true;
    saver_.save_again();
  }
  if (!config_.restore_best || !best_ || best_step_ == trainer.step()) {
    return;
  }
  saver_.wait(trainer);
  const std::string folder = saver_.folder_of(best_step_);
  if (!saver_.files().exists(folder)) {
    log_warning("{}: is gone; the run ends with its last weights", folder);
    return;
  }
  saver_.set_best_aside(trainer);
  trainer.load_state_of(saver_.files(), folder);
  saver_.save_again();
  restored_ = best_step_;
  log_info("the weights are those of step {} again, with {} {:.6g}", best_step_, config_.monitor,
           *best_);
}

Json EarlyStopping::state() const {
  return {{"monitor", config_.monitor}, {"larger_is_better", monitor_.larger_is_better()},
          {"best", to_state(best_)},    {"best_step", best_step_},
          {"waited", waited_},          {"ended", ended_}};
}

void EarlyStopping::restore(const Json& state) {
  if (!state_is_of(monitor_, state, kName)) {
    return;  // what was seen of another metric, or is good the other way, says nothing
  }
  best_ = state_optional(state, "best", kName);
  best_step_ = state_count(state, "best_step", kName);
  waited_ = state_count(state, "waited", kName);
  ended_ = state_flag(state, "ended", kName);
}

std::optional<std::string> EarlyStopping::ended_by(const EarlyStoppingConfig& config,
                                                   const Json& callbacks) {
  const auto found = callbacks.find(kName);
  if (found == callbacks.end() ||
      !state_is_of(Monitor(config.monitor, config.mode), *found, kName) ||
      !state_flag(*found, "ended", kName)) {
    return std::nullopt;
  }
  if (is_enough(config, state_optional(*found, "best", kName))) {
    return "target";
  }
  const int64_t waited = state_count(*found, "waited", kName);
  return waited > 0 && waited >= config.patience ? std::optional<std::string>("patience")
                                                 : std::nullopt;
}

}  // namespace mstrain
