#include "core/train/profiler.h"

#include <algorithm>
#include <cmath>

#include "core/base/log.h"

namespace mstrain {

Profiler::Profiler(const RunDirectory& directory, const TrainConfig& config,
                   const StepProgram& program, int64_t begin)
    : directory_(directory),
      config_(config),
      program_(program),
      first_(begin + config.profile.first),
      last_(first_ + config.profile.steps - 1),
      done_(config.profile.steps == 0) {}

void Profiler::on_step(Trainer&, const StepMetrics& metrics) {
  if (!done_ && metrics.step >= first_) {
    const auto length = static_cast<int64_t>(std::llround(metrics.seconds * 1e9));
    steps_.push_back({metrics.step, metrics.begin, metrics.begin + length});
  }
}

bool Profiler::wants(int64_t step, Moment moment) {
  return !done_ && (moment != Moment::kStep || step == first_ - 1 || step == last_);
}

void Profiler::on_state(Trainer& trainer, Moment moment) {
  if (trainer.step() < last_ && moment == Moment::kStep) {
    record();
    return;
  }
  stop();
  done_ = true;
  if (steps_.empty()) {
    log_warning("profile.first: the run ended before step {}; no profile was written", first_);
  } else {
    write();
  }
}

void Profiler::record() {
  program_.profile(&kernels_);
  current_context().device().record_copies(&copies_);
}

void Profiler::stop() {
  program_.profile(nullptr);
  current_context().device().record_copies(nullptr);
}

void Profiler::write() {
  const Context& context = current_context();
  const size_t each = kernels_.size() / steps_.size();  // every step runs the same ones
  for (size_t i = 0; i < steps_.size(); ++i) {
    ProfiledStep& step = steps_[i];
    step.kernels = (i + 1) * each;
    // Where kernels run late, what gives them work is done before they are.
    if (each > 0 && !context.device().is_host()) {
      step.begin = kernels_[i * each].begin;
      step.end = kernels_[step.kernels - 1].end;
    }
  }
  const ProfileSummary summary =
      summarise(steps_, kernels_, context.num_threads(), measure_limits(context));
  const std::string path = directory_.at(kProfileFile);
  write_file_atomic(directory_.files(), path,
                    trace_text(config_.run.name, summary, steps_, kernels_, copies_));
  log_info("profile of step{} {}: {}; open it in https://ui.perfetto.dev or chrome://tracing",
           steps_.size() == 1 ? "" : "s",
           steps_.size() == 1 ? fmt::format("{}", first_)
                              : fmt::format("{} to {}", first_, steps_.back().step),
           path);
  steps_.clear();
  kernels_.clear();
  kernels_.shrink_to_fit();
  copies_.clear();
}

}  // namespace mstrain
