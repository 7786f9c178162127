#include "core/train/saver.h"

#include <algorithm>

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
  if (best_) {
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
  if (const double value = monitor_->value_in(row.metrics); monitor_->better(value, best_)) {
    best_ = value;
    best_step_ = row.step;
    keep(kName, row.step);
  }
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
  const auto write = [&files = files(), logs = log_.paths(), folder = folder_of(writing_),
                      checkpoints = directory_.checkpoints(), keep = config_.checkpoint.keep,
                      kept = kept_, ranks = ranks_.get(),
                      outside = trainer.outside()](const CheckpointContents& contents) {
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
      prune_checkpoints(files, checkpoints, keep, besides);
    }
    if (outside != nullptr) {
      confirm_outside(files, checkpoints, id, *outside, ranks);
    }
  };
  if (asynchronous_ && moment == Moment::kStep) {
    writer_.submit(trainer.checkpoint(), write);
    return;
  }
  write(trainer.checkpoint());
  trainer.saved(writing_, folder_of(writing_));
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
  return best_ ? std::optional(Best{*config_.checkpoint.best, *best_, best_step_}) : std::nullopt;
}

Json Saver::state() const {
  return {{"monitor", monitor_->name()}, {"best", to_state(best_)}, {"best_step", best_step_}};
}

void Saver::restore(const Json& state) {
  if (state_text(state, "monitor", kName) == monitor_->name()) {
    best_ = state_optional(state, "best", kName);
    best_step_ = state_count(state, "best_step", kName);
  }
}

}  // namespace mstrain
