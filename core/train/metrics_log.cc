#include "core/train/metrics_log.h"

#include <chrono>
#include <cmath>

#include "core/base/log.h"
#include "core/train/machine.h"
#include "core/train/state_fields.h"

namespace mstrain {
namespace {

// The step of the last row that has `key`; 0: none has.
template <class Is>
int64_t last_of(const std::vector<Json>& rows, const Is& is) {
  int64_t step = 0;
  for (const Json& row : rows) {
    if (is(row)) {
      step = std::max(step, row["step"].get<int64_t>());
    }
  }
  return step;
}

}  // namespace

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

MetricsLog::MetricsLog(const RunDirectory& directory, const TrainConfig& config, Units in_a_step,
                       const MetricsKept& kept)
    : config_(config),
      in_a_step_(std::move(in_a_step)),
      metrics_path_(directory.at(kMetricsFile)),
      events_path_(directory.at(events_file_name(wall_clock()))),
      file_(directory.files(), metrics_path_, kept),
      events_(directory.files(), events_path_, wall_clock()) {
  // On ranks that write nothing the file still has the later rows.
  std::vector<Json> rows = read_metrics(directory.files(), metrics_path_);
  std::erase_if(rows, [&](const Json& row) { return !kept.has(row); });
  last_evaluation_ = last_of(rows, [](const Json& row) { return is_evaluation(row); });
  last_samples_ = last_of(rows, [](const Json& row) { return row.contains("samples"); });
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (key.starts_with(kPredictions) && value.is_number_integer()) {
        first_predictions_.emplace(key, value.get<int64_t>());
      }
    }
  }
  // A run that begins may stand where one was killed before its first checkpoint.
  events_.restart(kept.training > 0 ? kept.training + 1 : 0, wall_clock());
}

MetricsKept MetricsLog::kept(int64_t step, const Json& callbacks) {
  const auto found = callbacks.find(kName);
  return found == callbacks.end() ? MetricsKept(step)
                                  : MetricsKept(step, state_count(*found, "evaluation", kName),
                                                state_count(*found, "samples", kName));
}

Json MetricsLog::state() const {
  return {{"evaluation", last_evaluation_}, {"samples", last_samples_}};
}

bool MetricsLog::is_logged(int64_t step) const {
  return step == 1 || step % config_.log.interval == 0 || step == config_.schedule.total_steps;
}

void MetricsLog::on_step(Trainer& trainer, const StepMetrics& metrics) {
  seconds_ += metrics.seconds;
  ++steps_;
  last_ = metrics;
  if (is_logged(metrics.step)) {
    write(trainer, metrics);
  }
}

bool MetricsLog::wants(int64_t, Moment moment) { return moment != Moment::kStep; }

// No row of a run that is interrupted, which goes on as if it never had been.
void MetricsLog::on_state(Trainer& trainer, Moment moment) {
  goes_on_ = moment == Moment::kInterrupted;
  if (!goes_on_ && steps_ > 0) {
    write(trainer, last_);
  }
}

void MetricsLog::failed(Trainer& trainer) noexcept {
  try {
    if (steps_ > 0) {
      write(trainer, last_);
    }
  } catch (const std::exception& error) {
    log_warning("{}: the last step could not be noted: {}", metrics_path_, error.what());
  }
}

void MetricsLog::write(Trainer& trainer, const StepMetrics& metrics) {
  const auto steps = static_cast<double>(steps_);
  const double rate = static_cast<double>(in_a_step_.count) * steps / seconds_;
  const double now = wall_clock();
  const std::string rate_key = per_second(in_a_step_.name);
  OrderedJson row{{"step", metrics.step}, {"loss", metrics.loss},
                  {"lr", metrics.lr},     {"grad_norm", metrics.grad_norm},
                  {rate_key, rate},       {"step_seconds", seconds_ / steps}};
  for (const Metric& metric : metrics.metrics) {
    if (std::isfinite(metric.value)) {  // a mean over none is left out
      const std::string name(name_of_steps(*metric.kind));
      row[name] = metric.value;
      events_.scalar("train/" + name, metric.value, metrics.step, now);
    }
  }
  if (metrics.skipped_steps) {
    row["skipped_steps"] = *metrics.skipped_steps;
    events_.scalar("train/skipped_steps", static_cast<double>(*metrics.skipped_steps), metrics.step,
                   now);
  }
  if (metrics.loss_scale) {
    row["loss_scale"] = *metrics.loss_scale;
    events_.scalar("train/loss_scale", *metrics.loss_scale, metrics.step, now);
  }
  const double worked = processor_seconds();
  const double elapsed = now - last_row_time_;
  if (last_row_time_ > 0 && elapsed > 0) {
    row[kBusyProcessors] = (worked - last_worked_) / elapsed;
    events_.scalar("system/busy_processors", row[kBusyProcessors], metrics.step, now);
  }
  last_row_time_ = now;
  last_worked_ = worked;
  row[kResidentBytes] = resident_memory_bytes();
  events_.scalar("system/resident_bytes", row[kResidentBytes], metrics.step, now);
  take_notes(trainer, metrics.step, now, row);
  row["time"] = now;
  file_.write(row);
  events_.scalar("train/loss", metrics.loss, metrics.step, now);
  events_.scalar("train/lr", metrics.lr, metrics.step, now);
  events_.scalar("train/grad_norm", metrics.grad_norm, metrics.step, now);
  events_.scalar("train/" + rate_key, rate, metrics.step, now);
  seconds_ = 0;
  steps_ = 0;
}

bool MetricsLog::take_notes(Trainer& trainer, int64_t step, double now, OrderedJson& row) {
  const std::map<std::string, double> notes = trainer.take_notes();
  for (const auto& [name, value] : notes) {
    row[name] = value;
    events_.scalar("noted/" + name, value, step, now);
  }
  return !notes.empty();
}

void MetricsLog::on_stop(Trainer& trainer) {
  if (goes_on_ || trainer.is_interrupted()) {
    return;  // the run that goes on notes it again
  }
  const double now = wall_clock();
  OrderedJson row{{"step", trainer.step()}};
  if (take_notes(trainer, trainer.step(), now, row)) {
    row["time"] = now;
    file_.write(row);
  }
}

// A curve joins means over equally many predictions: others than those of the run's first evaluation get a tag of their own.
std::string MetricsLog::tag_of(const Metric& metric) {
  const auto first =
      first_predictions_.emplace(of_set(kPredictions, metric.set), metric.predictions).first;
  const std::string tag = of_set(metric.kind->tag, metric.set);
  return first->second == metric.predictions ? tag : fmt::format("{}@{}", tag, metric.predictions);
}

void MetricsLog::evaluation(const EvaluationRow& row) {
  const double now = wall_clock();
  OrderedJson json{{"step", row.step}};
  for (const Metric& metric : row.metrics) {
    json[metric.name()] = metric.value;
    events_.scalar(tag_of(metric), metric.value, row.step, now);
  }
  for (const Metric& metric : row.metrics) {
    json[of_set(kPredictions, metric.set)] = metric.predictions;
  }
  if (!row.metrics.empty()) {
    json["eval_seconds"] = row.seconds;
    last_evaluation_ = row.step;
  }
  json["time"] = now;
  for (const auto& [prompt, text, reward] : row.samples) {
    json["samples"].push_back({{"prompt", prompt}, {"text", text}});
    if (reward) {
      json["samples"].back()["reward"] = *reward;
    } else {
      last_samples_ = row.step;
    }
    events_.text("sample/" + prompt, text, row.step, now);
  }
  file_.write(json);
}

}  // namespace mstrain
