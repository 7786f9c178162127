#include "core/train/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/log.h"

namespace mstrain {

const MetricKind* find_metric_kind(std::string_view full_name) {
  const std::string_view name = full_name.substr(0, full_name.find('/'));
  const auto* const found = std::find_if(std::begin(kMetricKinds), std::end(kMetricKinds),
                                         [&](const MetricKind& kind) { return kind.name == name; });
  return found == std::end(kMetricKinds) ? nullptr : found;
}

std::string_view name_of_steps(const MetricKind& kind) {
  constexpr std::string_view kHeldOut = "eval_";
  return std::string_view(kind.name).substr(kHeldOut.size());
}

std::string of_set(std::string_view name, std::string_view set) {
  return set.empty() ? std::string(name) : fmt::format("{}/{}", name, set);
}

std::string Metric::name() const { return of_set(kind->name, set); }

Monitor::Monitor(std::string name, MonitorMode mode, double min_delta)
    : name_(std::move(name)), larger_(mode == MonitorMode::kMax), min_delta_(min_delta) {
  if (mode == MonitorMode::kAuto) {
    const MetricKind* const kind = find_metric_kind(name_);
    check(kind != nullptr, "there is no metric {}", name_);
    larger_ = kind->larger_is_better;
  }
}

const Metric& Monitor::find_in(std::span<const Metric> metrics) const {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const Metric& metric) { return metric.name() == name_; });
  check(found != metrics.end(), "the evaluation gives no {}", name_);
  return *found;
}

double Monitor::watch(int64_t step, std::span<const Metric> metrics) const {
  const double value = value_in(metrics);
  if (!std::isfinite(value)) {
    log_warning("step {}: {} is {}, which is no improvement", step, name_, value);
  }
  return value;
}

bool Monitor::better(double value, double than) const {
  return std::isfinite(value) && (larger_ ? value > than + min_delta_ : value < than - min_delta_);
}

bool Monitor::better(double value, const std::optional<double>& best) const {
  return best ? better(value, *best) : std::isfinite(value);
}

void check_monitor(const YamlNode& tree, std::string_view key, const std::string& name) {
  if (find_metric_kind(name) != nullptr) {
    return;
  }
  std::vector<std::string> names;
  for (const MetricKind& kind : kMetricKinds) {
    names.emplace_back(kind.name);
  }
  const std::string full = "eval_" + name;
  const std::string near = find_metric_kind(full) != nullptr
                               ? fmt::format("; did you mean {}?", full)
                               : did_you_mean(name, names);
  config_fail(tree, key,
              fmt::format("'{}' is no metric of an evaluation{}", name,
                          near.empty() ? ", as eval_loss is" : near));
}

}  // namespace mstrain
