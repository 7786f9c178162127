#include "core/train/metrics_log.h"

#include <chrono>

#include "core/base/error.h"

namespace mstrain {
namespace {

int64_t last_evaluated_step(const std::vector<Json>& rows, int64_t last_step) {
  int64_t step = -1;
  for (const Json& row : rows) {
    if (row.contains("eval_loss") && row["step"].get<int64_t>() <= last_step) {
      step = std::max(step, row["step"].get<int64_t>());
    }
  }
  return step;
}

}  // namespace

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

MetricsLog::MetricsLog(const RunDirectory& directory, const TrainConfig& config,
                       int64_t tokens_per_step, int64_t last_step)
    : config_(config),
      tokens_per_step_(tokens_per_step),
      last_evaluation_(last_evaluated_step(
          read_metrics(directory.files(), directory.at(kMetricsFile)), last_step)),
      file_(directory.files(), directory.at(kMetricsFile), last_step),
      events_(directory.files(), directory.at(events_file_name(wall_clock())), wall_clock()) {
  if (last_step > 0) {
    events_.restart(last_step + 1, wall_clock());
  }
}

bool MetricsLog::is_logged(int64_t step) const {
  return step == 1 || step % config_.log.interval == 0 || step == config_.schedule.total_steps;
}

void MetricsLog::on_step(const StepMetrics& metrics) {
  seconds_ += metrics.seconds;
  ++steps_;
  if (!is_logged(metrics.step)) {
    return;
  }
  const auto steps = static_cast<double>(steps_);
  const double rate = static_cast<double>(tokens_per_step_) * steps / seconds_;
  const double now = wall_clock();
  file_.write({{"step", metrics.step},
               {"loss", metrics.loss},
               {"lr", metrics.lr},
               {"grad_norm", metrics.grad_norm},
               {"tokens_per_second", rate},
               {"step_seconds", seconds_ / steps},
               {"time", now}});
  events_.scalar("train/loss", metrics.loss, metrics.step, now);
  events_.scalar("train/lr", metrics.lr, metrics.step, now);
  events_.scalar("train/grad_norm", metrics.grad_norm, metrics.step, now);
  events_.scalar("train/tokens_per_second", rate, metrics.step, now);
  seconds_ = 0;
  steps_ = 0;
}

void MetricsLog::evaluation(const EvaluationRow& row) {
  const double now = wall_clock();
  OrderedJson json{
      {"step", row.step}, {"eval_loss", row.loss}, {"eval_seconds", row.seconds}, {"time", now}};
  for (const auto& [prompt, text] : row.samples) {
    json["samples"].push_back({{"prompt", prompt}, {"text", text}});
    events_.text("sample/" + prompt, text, row.step, now);
  }
  file_.write(json);
  events_.scalar("eval/loss", row.loss, row.step, now);
  last_evaluation_ = row.step;
}

void MetricsLog::sync() {
  file_.sync();
  events_.sync();
}

}  // namespace mstrain
