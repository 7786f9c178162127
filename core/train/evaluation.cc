#include "core/train/evaluation.h"

#include <chrono>
#include <cmath>
#include <numbers>

#include "core/base/error.h"

namespace mstrain {
namespace {

// Each kind of metric where the task and its data give it, from what was counted.
struct Counted {
  double loss_sum = 0;
  double predictions = 0;
  double correct = 0;
  double bytes = 0;
};

struct Measure {
  bool (*given)(const TrainTask& task, const TrainData& data);
  double (*value)(const Counted& counted);
};

double mean_loss(const Counted& counted) { return counted.loss_sum / counted.predictions; }

// In the order of kMetricKinds.
constexpr Measure kMeasures[] = {
    {[](const TrainTask&, const TrainData&) { return true; }, mean_loss},
    {[](const TrainTask& task, const TrainData&) { return task.loss_in_nats; },
     [](const Counted& counted) { return std::exp(mean_loss(counted)); }},
    {[](const TrainTask& task, const TrainData& data) {
       return task.loss_in_nats && data.scored_bytes != nullptr;
     },
     [](const Counted& counted) { return counted.loss_sum / std::numbers::ln2 / counted.bytes; }},
    {[](const TrainTask& task, const TrainData&) { return task.counts_correct; },
     [](const Counted& counted) { return counted.correct / counted.predictions; }}};
static_assert(std::size(kMeasures) == std::size(kMetricKinds));

std::string one_line(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string describe(std::span<const Metric> metrics) {
  std::string out;
  for (const auto& [kind, value] : metrics) {
    out += fmt::format("{}{} {:.4f}", out.empty() ? "" : "  ", kind->title, value);
  }
  return out;
}

std::vector<std::string> metrics_of(const TrainTask& task, const TrainData& data) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::size(kMeasures); ++i) {
    if (data.evaluation != nullptr && kMeasures[i].given(task, data)) {
      names.emplace_back(kMetricKinds[i].name);
    }
  }
  return names;
}

std::optional<EvaluationResult> evaluate(const LossProgram& program, const Params& params,
                                         const TrainTask& task, const TrainData& data,
                                         const TrainConfig& config, int64_t rows,
                                         const std::atomic<bool>& stop, Progress* progress) {
  check(data.evaluation != nullptr,
        "there is nothing to evaluate on: give data.valid, or a data.split below 1");
  const auto begin = std::chrono::steady_clock::now();
  int64_t batches = data.evaluation_batches(rows);
  if (!config.eval.batches.is_word()) {
    const int64_t samples = *config.eval.batches.value * config.batch.global;
    batches = std::min(batches, (samples + rows - 1) / rows);
  }
  const std::unique_ptr<BatchStream> stream = data.evaluation(rows);
  Counted total;
  for (int64_t i = 0; i < batches; ++i) {
    if (stop) {
      return std::nullopt;
    }
    const Tensors batch = stream->next();
    const LossProgram::Value value = program.run(params, batch);
    total.loss_sum += value.sum;
    total.predictions += value.count;
    total.correct += value.correct;
    total.bytes += data.scored_bytes != nullptr ? static_cast<double>(data.scored_bytes(batch)) : 0;
    if (progress != nullptr) {
      progress->show(fmt::format("evaluating {}/{}", i + 1, batches));
    }
  }
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin);
  EvaluationResult result{{}, static_cast<int64_t>(total.predictions), seconds.count()};
  for (size_t i = 0; i < std::size(kMeasures); ++i) {
    if (kMeasures[i].given(task, data)) {
      result.metrics.push_back({&kMetricKinds[i], kMeasures[i].value(total)});
    }
  }
  return result;
}

Evaluation::Evaluation(const LossProgram* program, const TrainTask& task, const TrainData& data,
                       const TrainConfig& config, int64_t rows, MetricsLog& log, Progress& progress,
                       const std::atomic<bool>& stop)
    : program_(program),
      task_(task),
      data_(data),
      config_(config),
      rows_(rows),
      log_(log),
      progress_(progress),
      stop_(stop) {}

bool Evaluation::evaluates(int64_t step, Moment moment) const {
  return data_.evaluation != nullptr && step > 0 && !log_.evaluated(step) &&
         (moment == Moment::kFinished ||
          (moment == Moment::kStep && step % config_.eval.interval == 0));
}

bool Evaluation::writes(int64_t step, Moment moment) const {
  const int64_t interval = config_.eval.sample_interval.value_or(config_.eval.interval);
  return data_.sample != nullptr && !config_.eval.prompts.empty() && step > 0 &&
         !log_.sampled(step) &&
         (moment == Moment::kFinished || (moment == Moment::kStep && step % interval == 0));
}

bool Evaluation::wants(int64_t step, Moment moment) {
  return evaluates(step, moment) || writes(step, moment);
}

void Evaluation::on_state(Trainer& trainer, Moment moment) {
  EvaluationRow row{.step = trainer.step()};
  if (evaluates(row.step, moment)) {
    auto result = evaluate(*program_, trainer.state().params, task_, data_, config_, rows_, stop_,
                           &progress_);
    if (!result) {
      return;
    }
    row.metrics = std::move(result->metrics);
    row.seconds = result->seconds;
    log_info("step {}  {}  ({:.1f} s)", row.step, describe(row.metrics), row.seconds);
  }
  if (writes(row.step, moment)) {
    for (const std::string& prompt : config_.eval.prompts) {
      row.samples.push_back(
          {prompt, data_.sample(trainer.state().params, prompt, config_.eval.sample_tokens)});
      log_info("step {}  {} goes on {}", row.step, one_line(prompt),
               one_line(row.samples.back().text));
    }
    samples_ = row.samples;
  }
  log_.evaluation(row);
  if (!row.metrics.empty()) {
    last_ = row;
    trainer.evaluated(row);
  }
}

}  // namespace mstrain
