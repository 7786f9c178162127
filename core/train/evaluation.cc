#include "core/train/evaluation.h"

#include <chrono>

#include "core/base/error.h"

namespace mstrain {

std::optional<EvaluationResult> evaluate(const LossProgram& program, const Params& params,
                                         const TrainData& data, const TrainConfig& config,
                                         int64_t rows, const std::atomic<bool>& stop,
                                         Progress* progress) {
  check(data.evaluation != nullptr,
        "there is nothing to evaluate on: give data.valid, or a data.split below 1");
  const auto begin = std::chrono::steady_clock::now();
  int64_t batches = data.evaluation_batches(rows);
  if (!config.eval.batches.is_word()) {
    const int64_t samples = *config.eval.batches.value * config.batch.global;
    batches = std::min(batches, (samples + rows - 1) / rows);
  }
  const std::unique_ptr<BatchStream> stream = data.evaluation(rows);
  LossProgram::Value total;
  for (int64_t i = 0; i < batches; ++i) {
    if (stop) {
      return std::nullopt;
    }
    const LossProgram::Value value = program.run(params, stream->next());
    total.sum += value.sum;
    total.count += value.count;
    if (progress != nullptr) {
      progress->show(fmt::format("evaluating {}/{}", i + 1, batches));
    }
  }
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin);
  return EvaluationResult{total.sum / total.count, static_cast<int64_t>(total.count),
                          seconds.count()};
}

Evaluation::Evaluation(const LossProgram* program, const TrainData& data, const TrainConfig& config,
                       int64_t rows, MetricsLog& log, Progress& progress,
                       const std::atomic<bool>& stop)
    : program_(program),
      data_(data),
      config_(config),
      rows_(rows),
      log_(log),
      progress_(progress),
      stop_(stop) {}

bool Evaluation::wants(int64_t step, Moment moment) {
  if (data_.evaluation == nullptr || step == 0 || log_.evaluated(step)) {
    return false;
  }
  return moment == Moment::kFinished ||
         (moment == Moment::kStep && step % config_.eval.interval == 0);
}

void Evaluation::on_state(Trainer& trainer, Moment) {
  const auto result =
      evaluate(*program_, trainer.state().params, data_, config_, rows_, stop_, &progress_);
  if (!result) {
    return;
  }
  EvaluationRow row{trainer.step(), result->loss, result->seconds, {}};
  if (data_.sample != nullptr) {
    for (const std::string& prompt : config_.eval.prompts) {
      row.samples.push_back(
          {prompt, data_.sample(trainer.state().params, prompt, config_.eval.sample_tokens)});
    }
  }
  log_.evaluation(row);
  trainer.learning_rate().observe(row.loss);
  log_info("step {}  eval loss {:.4f}  ({:.1f} s)", row.step, row.loss, row.seconds);
  last_ = std::move(row);
}

}  // namespace mstrain
