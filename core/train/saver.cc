#include "core/train/saver.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/runtime/context.h"
#include "core/train/rank_talk.h"
#include "core/train/state_fields.h"

namespace mstrain {

Saver::Saver(const RunDirectory& directory, const TrainConfig& config, MetricsLog& log,
             bool asynchronous, int64_t last_saved)
    : directory_(directory),
      config_(config),
      log_(log),
      asynchronous_(asynchronous),
      last_saved_(last_saved) {
  if (config.checkpoint.best) {
    monitor_.emplace(*config.checkpoint.best, MonitorMode::kAuto);
  }
  if (Ranks* const ranks = current_context().ranks.get(); ranks != nullptr) {
    ranks_ = ranks->world().split(0, kName);
  }
}

std::string Saver::folder_of(int64_t step) const {
  return join_path(directory_.checkpoints(), checkpoint_name(step));
}

void Saver::on_start(Trainer&) {
  if (best_ && !is_aside_) {
    keep(kName, best_step_);
  }
}

void Saver::on_evaluation(Trainer&, const EvaluationRow& row) {
  if (row.step == last_saved_) {
    save_again();  // with what the evaluation led to
  }
  if (!monitor_) {
    return;
  }
  const Metric& metric = monitor_->find_in(row.metrics);
  if (best_ && best_predictions_ > 0 && metric.predictions != best_predictions_) {
    log_info(
        "step {}: {} is a mean over {} predictions, and was one over {}: the best checkpoint is "
        "looked for anew",
        row.step, monitor_->name(), metric.predictions, best_predictions_);
    best_.reset();
  }
  best_predictions_ = metric.predictions;
  if (monitor_->better(metric.value, best_)) {
    best_ = metric.value;
    best_step_ = row.step;
    is_aside_ = false;
    keep(kName, row.step);
  }
}

void Saver::set_best_aside(Trainer& trainer) {
  if (!best_ || best_step_ != trainer.step() || is_aside_) {
    return;
  }
  wait(trainer);
  is_aside_ = true;
  kept_.erase(kName);
  writing(trainer,
          join_path(directory_.checkpoints(), set_aside_name(best_step_)))(trainer.checkpoint());
}

void Saver::keep(const std::string& owner, int64_t step) { kept_[owner] = step; }

bool Saver::is_due(int64_t step) const {
  const CheckpointConfig& config = config_.checkpoint;
  if (!config.interval.is_word()) {
    return step % *config.interval.value == 0;
  }
  const std::chrono::duration<double, std::ratio<60>> minutes(config.minutes);
  return std::chrono::steady_clock::now() - last_time_ >= minutes;
}

bool Saver::wants(int64_t step, Moment moment) {
  const bool is_kept = std::any_of(kept_.begin(), kept_.end(),
                                   [&](const auto& entry) { return entry.second == step; });
  const bool due = moment != Moment::kStep || is_due(step) || is_kept;
  return (step > last_saved_ && due) || (step == last_saved_ && !saved_as_is_);
}

void Saver::on_state(Trainer& trainer, Moment moment) {
  wait(trainer);
  writing_ = trainer.step();
  last_saved_ = trainer.step();
  last_time_ = std::chrono::steady_clock::now();
  saved_as_is_ = true;
  const CheckpointWriter::Write write = writing(trainer, folder_of(writing_));
  if (asynchronous_ && moment == Moment::kStep) {
    writer_.submit(trainer.checkpoint(), write);
    return;
  }
  write(trainer.checkpoint());
  trainer.saved(writing_, folder_of(writing_));
}

CheckpointWriter::Write Saver::writing(Trainer& trainer, const std::string& folder) const {
  return [&files = files(), logs = log_.paths(), folder, checkpoints = directory_.checkpoints(),
          keep = config_.checkpoint.keep, kept = kept_,
          aside = best_ && is_aside_ ? std::optional(best_step_) : std::nullopt,
          ranks = ranks_.get(), outside = trainer.outside()](const CheckpointContents& contents) {
    for (const std::string& path : logs) {
      files.open(path, WriteMode::kAppend)->sync();
    }
    std::string id;
    if (outside != nullptr) {
      id = contents.progress.outside.at(outside->name()).get<std::string>();
      const auto wait = [&] { outside->wait(id); };
      ranks == nullptr ? wait() : work_together(*ranks, kName, wait);
    }
    save_checkpoint(files, folder, contents, ranks);
    if (ranks == nullptr || ranks->rank() == 0) {
      std::vector<int64_t> besides;
      for (const auto& [owner, step] : kept) {
        besides.push_back(step);
      }
      prune_checkpoints(files, checkpoints, keep, besides, aside);
    }
    if (outside != nullptr) {
      confirm_outside(files, checkpoints, id, *outside, ranks);
    }
  };
}

void Saver::on_step(Trainer& trainer, const StepMetrics&) { tell(trainer); }

void Saver::wait(Trainer& trainer) {
  work_together(current_context().ranks.get(), "checkpoint", [this] { writer_.wait(); });
  tell(trainer);
}

void Saver::tell(Trainer& trainer) {
  if (writer_.poll()) {
    trainer.saved(writing_, folder_of(writing_));
  }
}

std::optional<Saver::Best> Saver::best() const {
  return best_ ? std::optional(
                     Best{*config_.checkpoint.best, *best_, best_step_,
                          is_aside_ ? set_aside_name(best_step_) : checkpoint_name(best_step_)})
               : std::nullopt;
}

Json Saver::state() const {
  return {{"monitor", monitor_->name()},
          {"best", to_state(best_)},
          {"best_step", best_step_},
          {"predictions", best_predictions_},
          {"aside", is_aside_}};
}

void Saver::restore(const Json& state) {
  if (state_text(state, "monitor", kName) == monitor_->name()) {
    best_ = state_optional(state, "best", kName);
    best_step_ = state_count(state, "best_step", kName);
    // Checkpoints of earlier versions do not say these.
    best_predictions_ =
        state.contains("predictions") ? state_count(state, "predictions", kName) : 0;
    is_aside_ = state.contains("aside") && state_flag(state, "aside", kName);
  }
}

}  // namespace mstrain
