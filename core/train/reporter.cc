#include "core/train/reporter.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/train/metrics_csv.h"
#include "core/train/metrics_file.h"
#include "core/train/rank_talk.h"
#include "core/train/report.h"

namespace mstrain {
namespace {

constexpr int64_t kReportSteps = 250;

// What the newest evaluation of an earlier start measured.
std::vector<Metric> last_evaluation(const std::vector<Json>& rows) {
  const auto row = std::find_if(rows.rbegin(), rows.rend(),
                                [](const Json& each) { return is_evaluation(each); });
  std::vector<Metric> out;
  if (row == rows.rend()) {
    return out;
  }
  for (const auto& [key, value] : row->items()) {
    const std::string name = key.substr(0, key.find('/'));
    const MetricKind* const kind = find_metric_kind(name);
    if (kind != nullptr && value.is_number()) {
      out.push_back({.kind = kind, .value = value.get<double>()});
      out.back().set = key == name ? "" : key.substr(name.size() + 1);
    }
  }
  return out;
}

}  // namespace

Reporter::Reporter(const RunDirectory& directory, const TrainConfig& config, const RunPlan& plan,
                   const RunStart& start, const Evaluation& evaluation, const Saver& saver)
    : directory_(directory),
      config_(config),
      evaluation_(evaluation),
      saver_(saver),
      record_(directory, config, plan, start) {}

bool Reporter::wants(int64_t step, Moment moment) {
  const int64_t interval = config_.eval.interval.value_or(kReportSteps);
  return moment != Moment::kStep || (step > 0 && step % interval == 0 && step != reported_);
}

void Reporter::on_state(Trainer& trainer, Moment moment) {
  reported_ = trainer.step();
  ask_ranks();
  const bool cut_short =
      evaluation_.evaluates(trainer.step(), Moment::kFinished) || trainer.is_interrupted();
  status_ = moment == Moment::kStep                     ? kStatusRunning
            : moment == Moment::kFinished && !cut_short ? kStatusFinished
                                                        : kStatusInterrupted;
  if (moment == Moment::kStep) {
    write(trainer.step(), status_, trainer.end_reason());
  }
}

void Reporter::on_stop(Trainer& trainer) { write(trainer.step(), status_, trainer.end_reason()); }

void Reporter::began(int64_t step) {
  ask_ranks();
  write(step, kStatusRunning, "");
}

void Reporter::ask_ranks() {
  if (Ranks* const ranks = current_context().ranks.get(); ranks != nullptr) {
    record_.note_ranks(told_to_first(ranks, record_.memory().dump(), "memory of ranks"));
  }
}

void Reporter::failed(int64_t step, const std::string& reason) noexcept {
  try {
    write(step, kStatusFailed, reason);
  } catch (const std::exception& error) {
    log_warning("{}: the failure could not be noted: {}", directory_.at(kRunFile), error.what());
  }
}

void Reporter::write(int64_t step, const char* status, const std::string& reason) {
  if (!is_first(current_context().ranks.get())) {
    return;
  }
  FileSystem& files = directory_.files();
  RunState state{.step = step, .status = status, .reason = reason, .best = saver_.best()};
  if (early_stopping_ != nullptr) {
    state.weights_of = early_stopping_->restored();
  }
  const std::vector<Json> rows = read_metrics(files, directory_.at(kMetricsFile));
  state.metrics = evaluation_.last() ? evaluation_.last()->metrics : last_evaluation(rows);
  record_.write(state);
  write_file_atomic(files, directory_.at(kMetricsTable), metrics_csv(rows));
  const std::string path = directory_.path();
  write_file_atomic(files, directory_.at(kReportFile), report_html(files, std::span(&path, 1)));
}

}  // namespace mstrain
