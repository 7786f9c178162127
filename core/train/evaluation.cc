#include "core/train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "core/base/error.h"
#include "core/runtime/context.h"
#include "core/train/numbers.h"
#include "core/train/rank_talk.h"
#include "core/train/ranked_scores.h"

namespace mstrain {
namespace {

struct Counted {
  std::vector<LossProgram::Value> sums;  // the loss, then the task's metrics
  int64_t bytes = 0;
  LossProgram::Value earned;
  RankedScores scores;
  GroupedScores grouped;

  explicit Counted(const TrainTask& task) : sums(1 + task.metrics.size()) {}
  void add(const Counted& more) {
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i].sum += more.sums[i].sum;
      sums[i].count += more.sums[i].count;
    }
    bytes += more.bytes;
    earned.sum += more.earned.sum;
    earned.count += more.earned.count;
  }
  // What numbers_of() gives of each of some batches. Samples that fill up the last batches count nothing.
  void add_in_order(const std::vector<double>& numbers) {
    for (auto at = numbers.begin(); at != numbers.end();) {
      for (LossProgram::Value& value : sums) {
        value.sum += *at++;
        value.count += *at++;
      }
      bytes += static_cast<int64_t>(*at++);
    }
  }
  // Those of all ranks, one's after the other.
  void rank(Ranks* ranks, const LossProgram::Found& found, const std::string& set) {
    const std::vector<double> of_all = gathered(ranks, found.scores, set);
    const std::vector<double> labels = gathered(ranks, found.labels, set);
    scores.add(of_all, labels);
    if (!found.groups.empty()) {
      grouped.add(of_all, labels, gathered(ranks, found.groups, set));
    }
  }
};

std::vector<double> numbers_of(const std::vector<LossProgram::Value>& values, double bytes) {
  std::vector<double> numbers;
  for (const LossProgram::Value& value : values) {
    numbers.insert(numbers.end(), {value.sum, value.count});
  }
  numbers.push_back(bytes);
  return numbers;
}

double mean(const LossProgram::Value& value) { return value.sum / value.count; }

// Of what an evaluation counts: those that follow from the loss, and those that the task names.
struct Measure {
  const MetricKind* kind;
  std::function<double(const Counted&)> value;
};

std::vector<Measure> measures_of(const TrainTask& task, const TrainData& data) {
  std::vector<Measure> measures;
  const auto mean_loss = [](const Counted& counted) { return mean(counted.sums[0]); };
  const bool has_targets = std::ranges::any_of(
      data.evaluation, [](const EvaluationSet& set) { return set.has_targets; });
  for (const MetricKind& kind : kMetricKinds) {
    const std::string_view name = kind.name;
    if (!has_targets && name != kEvalReward) {
      continue;
    }
    const auto at = std::find(task.metrics.begin(), task.metrics.end(), name);
    if (at != task.metrics.end()) {
      const auto index = static_cast<size_t>(at - task.metrics.begin()) + 1;
      measures.push_back({&kind, [index](const Counted& c) { return mean(c.sums[index]); }});
    } else if (name == kEvalLoss) {
      measures.push_back({&kind, mean_loss});
    } else if (name == kEvalReward && !data.evaluation.empty() &&
               data.evaluation[0].earned != nullptr) {
      measures.push_back({&kind, [](const Counted& c) { return mean(c.earned); }});
    } else if (name == kEvalAuc && task.has_scores) {
      measures.push_back({&kind, [](const Counted& c) { return c.scores.auc(); }});
    } else if (name == kEvalGroupedAuc && task.has_groups) {
      measures.push_back({&kind, [](const Counted& c) { return c.grouped.auc(); }});
    } else if (name == kEvalNormalizedEntropy && task.has_scores) {
      measures.push_back(
          {&kind, [=](const Counted& c) { return c.scores.normalized_entropy(mean_loss(c)); }});
    } else if (name == kEvalCalibration && task.has_scores) {
      measures.push_back({&kind, [](const Counted& c) { return c.scores.calibration(); }});
    } else if (name == kEvalPerplexity && task.loss_in_nats) {
      measures.push_back({&kind, [=](const Counted& c) { return std::exp(mean_loss(c)); }});
    } else if (name == kEvalBitsPerByte && task.loss_in_nats && data.scored_bytes != nullptr) {
      measures.push_back({&kind, [](const Counted& c) {
                            return c.sums[0].sum / std::numbers::ln2 / static_cast<double>(c.bytes);
                          }});
    }
  }
  return measures;
}

constexpr size_t kMostTexts = 3;  // of those that rewards are paid for, shown

std::string one_line(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

double EvaluationRow::loss() const {
  for (const Metric& metric : metrics) {
    if (std::string_view(metric.kind->name) == kEvalLoss && metric.set.empty()) {
      return metric.value;
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string describe(std::span<const Metric> metrics) {
  std::string out;
  std::string_view set;
  for (const Metric& metric : metrics) {
    const bool begins = metric.set != set;
    out += fmt::format("{}{}{} {:.4f}",
                       begins        ? "; "
                       : out.empty() ? ""
                                     : "  ",
                       begins ? metric.set + ": " : "", metric.kind->title, metric.value);
    set = metric.set;
  }
  return out;
}

std::string not_finite(std::span<const Metric> metrics) {
  for (const Metric& metric : metrics) {
    if (std::string_view(metric.kind->name) == kEvalLoss && !std::isfinite(metric.value)) {
      return fmt::format("the loss of the evaluation is {}: weights or samples hold such numbers",
                         std::isnan(metric.value) ? "no number" : "infinite");
    }
  }
  return "";
}

std::vector<std::string> metrics_of(const TrainTask& task, const TrainData& data) {
  std::vector<std::string> names;
  if (data.evaluation.empty()) {
    return names;
  }
  const std::vector<Measure> measures = measures_of(task, data);
  for (const Measure& measure : measures) {
    names.emplace_back(measure.kind->name);
  }
  for (const EvaluationSet& set : data.evaluation) {
    for (const Measure& measure : measures) {
      if (!set.name.empty()) {
        names.push_back(of_set(measure.kind->name, set.name));
      }
    }
  }
  return names;
}

std::optional<EvaluationResult> evaluate(const LossProgram& program, const Params& params,
                                         const TrainTask& task, const TrainData& data,
                                         const TrainConfig& config, int64_t rows,
                                         const std::atomic<bool>& stop,
                                         const std::function<Params()>& whole, Progress* progress) {
  check(!data.evaluation.empty(),
        "there is nothing to evaluate on: give data.valid, or a data.split below 1");
  const auto begin = std::chrono::steady_clock::now();
  Ranks* const ranks = current_context().ranks.get();
  EvaluationResult result;
  Counted total(task);
  const Params all_weights = data.evaluation[0].earned != nullptr ? whole() : Params();
  const std::vector<Measure> measures = measures_of(task, data);
  const auto measure_all = [&](const Counted& counted, const std::string& set) {
    std::vector<Metric> out;
    for (const Measure& measure : measures) {
      out.push_back({measure.kind, without_sign_of_nan(measure.value(counted)),
                     static_cast<int64_t>(counted.sums[0].count), set});
    }
    return out;
  };
  for (const EvaluationSet& set : data.evaluation) {
    int64_t samples = set.total;
    if (const int64_t global = config.batch.global;
        !config.eval.batches.is_word() && *config.eval.batches.value <= samples / global) {
      samples = *config.eval.batches.value * global;
    }
    const int64_t batches = (samples + rows - 1) / rows;
    const int64_t sharing = ranks == nullptr ? 1 : ranks->mesh().size(kDataAxis);
    const int64_t at_once = sharing * program.batches();
    const std::unique_ptr<BatchStream> stream = set.first(
        {rows * at_once, rows, sharing, ranks == nullptr ? 0 : ranks->coordinate(kDataAxis)},
        samples);
    Counted counted(task);
    for (int64_t i = 0; i < batches; i += at_once) {
      if (told(ranks, stop ? 1 : 0, "evaluation.stop") != 0) {
        return std::nullopt;
      }
      const Tensors batch = stream->next();
      auto bytes = static_cast<double>(data.scored_bytes ? data.scored_bytes(batch) : int64_t{0});
      for (const LossProgram::Found& found : program.run(params, batch)) {
        counted.add_in_order(gathered(ranks, numbers_of(found.sums, bytes), set.name));
        if (task.has_scores) {
          counted.rank(ranks, found, set.name);
          total.rank(ranks, found, set.name);
        }
        bytes = 0;  // of all of them
      }
      if (progress != nullptr) {
        progress->show(fmt::format("evaluating {}{}{}/{}", set.name, set.name.empty() ? "" : " ",
                                   std::min(i + at_once, batches), batches));
      }
    }
    for (int64_t i = 0; set.earned != nullptr && i < samples; i += config.batch.global) {
      if (told(ranks, stop ? 1 : 0, "evaluation.stop") != 0) {
        return std::nullopt;
      }
      const int64_t count = std::min(config.batch.global, samples - i);
      Earned earned = set.earned(all_weights, i, count);
      counted.earned.sum += earned.sum;
      counted.earned.count += static_cast<double>(count);
      for (Continuation& each : earned.texts) {
        if (result.texts.size() < kMostTexts) {
          result.texts.push_back(std::move(each));
        }
      }
    }
    total.add(counted);
    if (!set.name.empty()) {
      std::ranges::copy(measure_all(counted, set.name), std::back_inserter(result.metrics));
    }
  }
  const std::vector<Metric> of_all = measure_all(total, "");
  result.metrics.insert(result.metrics.begin(), of_all.begin(), of_all.end());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
  return !data_.evaluation.empty() && step > 0 && !log_.evaluated(step) &&
         (moment == Moment::kFinished || (moment == Moment::kStep && config_.eval.is_due(step)));
}

bool Evaluation::writes(int64_t step, Moment moment) const {
  return data_.sample != nullptr && !config_.eval.prompts.empty() && step > 0 &&
         !log_.sampled(step) &&
         (moment == Moment::kFinished ||
          (moment == Moment::kStep && config_.eval.are_samples_due(step)));
}

bool Evaluation::wants(int64_t step, Moment moment) {
  return evaluates(step, moment) || writes(step, moment);
}

void Evaluation::on_state(Trainer& trainer, Moment moment) {
  EvaluationRow row{.step = trainer.step()};
  if (evaluates(row.step, moment)) {
    auto result = evaluate(
        *program_, trainer.held_params(), task_, data_, config_, rows_, stop_,
        [&] { return trainer.params(); }, &progress_);
    if (!result) {
      return;
    }
    row.metrics = std::move(result->metrics);
    row.samples = std::move(result->texts);
    row.seconds = result->seconds;
    log_info("step {}  {}  ({:.1f} s)", row.step, describe(row.metrics), row.seconds);
    if (const std::string odd = not_finite(row.metrics); !odd.empty()) {
      log_warning("step {}: {}", row.step, odd);
    }
  }
  if (writes(row.step, moment)) {
    for (const std::string& prompt : config_.eval.prompts) {
      row.samples.push_back(
          {prompt, data_.sample(trainer.params(), prompt, config_.eval.sample_tokens)});
      log_info("step {}  {} goes on {}", row.step, one_line(prompt),
               one_line(row.samples.back().text));
    }
    samples_.assign(row.samples.end() - std::ssize(config_.eval.prompts), row.samples.end());
  }
  log_.evaluation(row);
  if (!row.metrics.empty()) {
    last_ = row;
    trainer.evaluated(row);
  }
}

}  // namespace mstrain
