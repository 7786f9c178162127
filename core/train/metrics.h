// The measures of an evaluation, and what watches one of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"

namespace mstrain {

struct MetricKind {
  const char* name;   // in metrics.jsonl, and what `monitor` calls it
  const char* tag;    // in TensorBoard
  const char* title;  // for people
  bool larger_is_better;
};

inline constexpr const char* kEvalLoss = "eval_loss";
inline constexpr const char* kEvalPerplexity = "eval_perplexity";
inline constexpr const char* kEvalBitsPerByte = "eval_bits_per_byte";
inline constexpr const char* kEvalAccuracy = "eval_accuracy";
inline constexpr const char* kEvalExactMatch = "eval_exact_match";
inline constexpr const char* kEvalReward = "eval_reward";
inline constexpr const char* kEvalMargin = "eval_margin";
inline constexpr const char* kEvalChosenReward = "eval_chosen_reward";
inline constexpr const char* kEvalRejectedReward = "eval_rejected_reward";
inline constexpr const char* kEvalAuc = "eval_auc";
inline constexpr const char* kEvalGroupedAuc = "eval_gauc";
inline constexpr const char* kEvalNormalizedEntropy = "eval_normalized_entropy";
inline constexpr const char* kEvalCalibration = "eval_calibration";
inline constexpr MetricKind kMetricKinds[] = {
    {kEvalLoss, "eval/loss", "eval loss", false},
    {kEvalPerplexity, "eval/perplexity", "perplexity", false},
    {kEvalBitsPerByte, "eval/bits_per_byte", "bits per byte", false},
    {kEvalAccuracy, "eval/accuracy", "accuracy", true},
    {kEvalExactMatch, "eval/exact_match", "exact match", true},
    {kEvalReward, "eval/reward", "reward", true},
    {kEvalMargin, "eval/margin", "margin", true},
    {kEvalChosenReward, "eval/chosen_reward", "reward of chosen answers", true},
    {kEvalRejectedReward, "eval/rejected_reward", "reward of rejected answers", false},
    {kEvalAuc, "eval/auc", "AUC", true},
    {kEvalGroupedAuc, "eval/gauc", "GAUC", true},
    {kEvalNormalizedEntropy, "eval/normalized_entropy", "normalized entropy", false},
    {kEvalCalibration, "eval/calibration", "calibration", false}};

// By its name; null where there is none. Behind a '/' a set of held-out data may stand.
const MetricKind* find_metric_kind(std::string_view name);
// What rows of steps call it: "margin" for "eval_margin".
std::string_view name_of_steps(const MetricKind& kind);

struct Metric {
  const MetricKind* kind;
  double value = 0;
  int64_t predictions = 0;  // over how many it is a mean
  std::string set;          // of held-out data, by its name; empty: over all of them

  // "eval_loss", "eval_loss/web"
  std::string name() const;
};

// "eval_loss" and "web": "eval_loss/web"; without a set the name itself.
std::string of_set(std::string_view name, std::string_view set);

enum class MonitorMode { kAuto, kMin, kMax };

// A metric and when a value of it is better than another one.
class Monitor {
 public:
  // With kAuto `name` is one of kMetricKinds, perhaps of a set of held-out data, which says which way is better.
  Monitor(std::string name, MonitorMode mode, double min_delta = 0);

  const std::string& name() const { return name_; }
  bool larger_is_better() const { return larger_; }
  // Among `metrics`; Error where it is missing.
  const Metric& find_in(std::span<const Metric> metrics) const;
  double value_in(std::span<const Metric> metrics) const { return find_in(metrics).value; }
  // As value_in(), of the evaluation at `step`; warns where it is no improvement because it is no number, or infinite.
  double watch(int64_t step, std::span<const Metric> metrics) const;
  // By more than min_delta. What is no number, or infinite, is never better.
  bool better(double value, double than) const;
  bool better(double value, const std::optional<double>& best) const;

 private:
  std::string name_;
  bool larger_;
  double min_delta_;
};

// Throws ConfigError at `key` of `tree` where `name` is no metric, whatever set it is of, with the nearest one.
void check_monitor(const YamlNode& tree, std::string_view key, const std::string& name);

}  // namespace mstrain
