#include "core/train/find_lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "core/base/error.h"
#include "core/base/files_silent.h"
#include "core/base/interrupt.h"
#include "core/base/log.h"
#include "core/train/log_file.h"
#include "core/train/metrics_csv.h"
#include "core/train/rank_talk.h"
#include "core/train/report.h"
#include "core/train/report_data.h"
#include "core/train/run_record.h"
#include "core/train/shared_plan.h"

namespace mstrain {
namespace {

// Raises the rate before every step, and ends the run where the loss diverges.
class RateRamp final : public Callback {
 public:
  RateRamp(const TrainConfig& config, RateCurve& curve)
      : config_(config.find_lr), least_scale_(config.precision.loss_scale_min), curve_(curve) {}

  void on_step(Trainer& trainer, const StepMetrics& metrics) override {
    if (std::isfinite(metrics.loss) && !std::isfinite(metrics.grad_norm) &&
        metrics.loss_scale > least_scale_) {
      return;  // skipped, as the scale comes down to what gradients bear: of no matter to the rate
    }
    if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm)) {
      trainer.end(Trainer::End::kFinished,
                  fmt::format("the loss is no number at rate {:.3g}", metrics.lr));
      return;
    }
    curve_.lr.push_back(metrics.lr);
    curve_.loss.push_back(metrics.loss);
    // A mean that follows quickly: a single bad batch is no divergence.
    constexpr double kFollow = 0.3;
    mean_ = curve_.loss.size() == 1 ? metrics.loss : mean_ + kFollow * (metrics.loss - mean_);
    least_ = std::min(least_, mean_);
    if (mean_ > config_.divergence * least_) {
      trainer.end(Trainer::End::kFinished, fmt::format("the loss diverged at rate {:.3g}: {:.4g}, "
                                                       "{:.4g} before",
                                                       metrics.lr, mean_, least_));
    }
  }

  bool wants(int64_t, Moment moment) override { return moment == Moment::kStep; }
  void on_state(Trainer& trainer, Moment) override {
    const double share =
        static_cast<double>(trainer.step()) / static_cast<double>(config_.steps - 1);
    trainer.scale_learning_rate(std::pow(config_.highest / config_.lowest, share), 0);
  }

 private:
  const FindLrConfig& config_;
  const double least_scale_;
  RateCurve& curve_;
  double mean_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
};

TrainConfig ramped(const TrainConfig& given, const std::string& directory) {
  TrainConfig config = given;
  config.run.name += "-find_lr";
  config.run.output_dir = directory;
  config.optimizer.lr = given.find_lr.lowest;
  config.optimizer.not_finite = NotFinite::kSkip;  // the ramp ends the run there
  config.schedule = {};
  config.schedule.type = ScheduleType::kConstant;
  config.schedule.total_steps = given.find_lr.steps;
  config.eval.interval = {};
  config.log.interval = 1;
  config.checkpoint.async = false;
  return config;
}

double width_of(const std::vector<double>& loss) {
  return std::max(1.0, static_cast<double>(loss.size()) / 40);
}

// Of the difference of neighbours: what the rate does to the loss is slow beside it.
double noise_of(std::span<const double> loss) {
  double squares = 0;
  for (size_t i = 1; i < loss.size(); ++i) {
    squares += std::pow(loss[i] - loss[i - 1], 2) / 2;
  }
  return std::sqrt(squares / static_cast<double>(loss.size() - 1));
}

OrderedJson to_json(const FoundRate& found) {
  return {{"lr", found.curve.lr},
          {"loss", found.curve.loss},
          {"smoothed", smoothed(found.curve.loss)},
          {"suggestion", found.suggestion ? OrderedJson(*found.suggestion) : OrderedJson()},
          {"ended", found.end_reason}};
}

}  // namespace

std::vector<double> smoothed(const std::vector<double>& loss) {
  const double width = width_of(loss);
  const auto reach = static_cast<int64_t>(std::ceil(3 * width));
  const auto count = static_cast<int64_t>(loss.size());
  std::vector<double> out;
  for (int64_t at = 0; at < count; ++at) {
    // As far to one side as to the other: a slope at the border is no shift of the mean.
    const int64_t radius = std::min({reach, at, count - 1 - at});
    double sum = 0;
    double weights = 0;
    for (int64_t i = at - radius; i <= at + radius; ++i) {
      const double weight = std::exp(-0.5 * std::pow(static_cast<double>(i - at) / width, 2));
      sum += weight * loss[static_cast<size_t>(i)];
      weights += weight;
    }
    out.push_back(sum / weights);
  }
  return out;
}

std::optional<double> suggested_rate(const RateCurve& curve) {
  const std::vector<double> loss = smoothed(curve.loss);
  // Means near the ends are of few points.
  const auto border = static_cast<ptrdiff_t>(std::ceil(2 * width_of(loss)));
  if (std::ssize(loss) < 2 * border + 3) {
    return std::nullopt;
  }
  const auto begin = loss.begin() + border;
  const auto least = std::min_element(begin, loss.end() - border);
  const double fall = *std::max_element(begin, least + 1) - *least;
  const size_t end = static_cast<size_t>(least - loss.begin());
  // The range of many means of noise is some six of their deviations.
  constexpr double kClearly = 8;
  const double averaged = 2 * std::sqrt(std::numbers::pi) * width_of(loss);  // points in a mean
  if (fall <= kClearly * noise_of(std::span(curve.loss).first(end + 1)) / std::sqrt(averaged)) {
    return std::nullopt;
  }
  std::optional<double> out;
  double steepest = 0;
  for (auto at = static_cast<size_t>(border); at < end; ++at) {
    const double slope =
        (loss[at + 1] - loss[at - 1]) / std::log(curve.lr[at + 1] / curve.lr[at - 1]);
    if (slope < steepest) {
      steepest = slope;
      out = curve.lr[at];
    }
  }
  return out;
}

std::string range_to_widen(const RateCurve& curve, double suggestion, bool came_to_the_end) {
  // Means over the outermost points are none to suggest by, and noise moves the steepest place by as much.
  const size_t outer = curve.lr.size() / 10;
  if (came_to_the_end && suggestion >= curve.lr[curve.lr.size() - 1 - outer]) {
    return "a larger find_lr.highest";
  }
  return suggestion <= curve.lr[outer] ? "a smaller find_lr.lowest" : "";
}

FoundRate find_lr(FileSystem& given_files, const TrainConfig& given, const YamlNode& resolved,
                  const TrainTask& task, const TrainData& data, const Refuse& refuse,
                  const std::atomic<bool>& stop, const SessionStart& start) {
  check(task.looked_up.empty(),
        "run.mode: find_lr is for models without tables: their rows have rates of their own");
  FoundRate found{.directory = join_path(given.run.directory(), kFindLrFolder)};
  const TrainConfig config = ramped(given, found.directory);
  Ranks* const ranks = start.ranks.get();
  const bool first = is_first(ranks);
  SilentFiles silent(given_files);
  FileSystem& files = first ? given_files : silent;
  check_batch(config, ranks == nullptr ? 1 : ranks->mesh().size(kDataAxis), resolved);
  if (!first) {
    meet(ranks, "run directory");  // that the first rank makes
  }
  RunDirectory directory(files, found.directory);
  if (first) {
    directory.clear();
  }
  const LogFile log_file(files, directory.at(kLogFile));
  if (first) {
    meet(ranks, "run directory");
  }
  const Context context = make_context(config, start.ranks);
  const ContextScope scope(context);
  const int64_t limit = memory_of_rank(config.memory, context);
  const PlannedRun run = plan_together(task, config, context, limit, /*evaluates=*/false);
  refuse_together(run.plan, limit, refuse);
  Trainer trainer(task, data, config, *run.step);
  trainer.start(static_cast<uint64_t>(config.run.seed), run.plan.micro);
  write_file_atomic(files, directory.at(kConfigFile), to_yaml(resolved));
  MetricsLog log(directory, config, run.plan.units, MetricsKept(0));
  Progress progress(config, run.plan.units, first);
  const RunStart run_start{0, start.command, {}};
  RunRecord record(directory, config, run.plan, run_start);
  RateRamp ramp(config, found.curve);
  const auto write = [&](const char* status, const std::string& reason) {
    if (!first) {
      return;
    }
    record.write({.step = trainer.step(), .status = status, .reason = reason});
    write_file_atomic(files, directory.at(kMetricsTable),
                      metrics_csv(read_metrics(files, directory.at(kMetricsFile))));
    write_file_atomic(files, directory.at(kReportFile),
                      report_html(files, std::span(&found.directory, 1)));
  };
  write(kStatusRunning, "");
  outlive_output();
  const HeedInterrupts heeds;
  found.interrupted = !trainer.run({&log, &progress, &ramp}, stop);
  found.end_reason = trainer.end_reason();
  found.suggestion = suggested_rate(found.curve);
  write_file_atomic(files, directory.at(kFindLrFile), print_lossy(to_json(found)) + "\n");
  write(found.interrupted ? kStatusInterrupted : kStatusFinished, found.end_reason);
  return found;
}

}  // namespace mstrain
