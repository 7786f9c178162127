#include "core/train/profiler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/log.h"
#include "core/train/rank_profile.h"
#include "core/train/rank_talk.h"

namespace mstrain {

Profiler::Profiler(const RunDirectory& directory, const TrainConfig& config,
                   const StepProgram& program, int64_t begin, Planned planned)
    : directory_(directory),
      config_(config),
      program_(program),
      first_(begin + config.profile.first),
      last_(first_ + config.profile.steps - 1),
      done_(config.profile.steps == 0),
      planned_(std::move(planned)) {}

void Profiler::on_step(Trainer&, const StepMetrics& metrics) {
  if (!done_ && metrics.step >= first_) {
    const auto length = static_cast<int64_t>(std::llround(metrics.seconds * 1e9));
    record_.steps.push_back({metrics.step, metrics.begin, metrics.begin + length});
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
  if (record_.steps.empty()) {
    log_warning("profile.first: the run ended before step {}; no profile was written", first_);
  } else {
    if (std::ssize(record_.steps) < config_.profile.steps) {
      log_warning("profile.steps: the run ended after {} of {}", record_.steps.size(),
                  config_.profile.steps);
    }
    write();
  }
}

void Profiler::record() {
  program_.profile(&record_.kernels, &record_.actions);
  current_context().device().record_copies(&record_.copies);
}

void Profiler::stop() {
  program_.profile(nullptr, nullptr);
  current_context().device().record_copies(nullptr);
}

void Profiler::write() {
  const Context& context = current_context();
  const size_t each =
      record_.kernels.size() / record_.steps.size();  // every step runs the same ones
  for (size_t i = 0; i < record_.steps.size(); ++i) {
    ProfiledStep& step = record_.steps[i];
    step.kernels = (i + 1) * each;
    // Where kernels run late, what gives them work is done before they are.
    if (each > 0 && !context.device().is_host()) {
      step.begin = record_.kernels[i * each].begin;
      step.end = record_.kernels[step.kernels - 1].end;
    }
  }
  Ranks* const ranks = context.ranks.get();
  meet(ranks, "profile");  // limits are those of a machine that all ranks work on
  const MachineLimits limits = measure_limits(context);
  const std::optional<Timeline> planned = ranks == nullptr ? std::nullopt : planned_(context);
  const std::vector<RankRecord> records = gather_records(ranks, std::exchange(record_, {}));
  if (records.empty()) {
    return;
  }
  const auto& [steps, kernels, actions, copies, texts] = records[0];
  ProfileSummary summary = summarise(steps, kernels, context.num_threads(), limits);
  if (ranks != nullptr) {
    summary.ranks = rank_totals(records, ranks->mesh());
    summary.planned = planned;
    summary.measured = measured_step(records, ranks->mesh());
  }
  const std::string path = directory_.at(kProfileFile);
  write_file_atomic(directory_.files(), path, trace_text(config_.run.name, summary, records));
  log_info("profile of step{} {}: {}; open it in https://ui.perfetto.dev or chrome://tracing",
           steps.size() == 1 ? "" : "s",
           steps.size() == 1 ? fmt::format("{}", first_)
                             : fmt::format("{} to {}", first_, steps.back().step),
           path);
}

}  // namespace mstrain
