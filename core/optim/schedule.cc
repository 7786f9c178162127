#include "core/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"

namespace mstrain {
namespace {

int64_t decay_steps(const ScheduleConfig& config) {
  const int64_t after_warmup = std::max<int64_t>(config.total_steps - config.warmup_steps, 1);
  return config.decay_steps.value_or(std::clamp<int64_t>(config.total_steps / 10, 1, after_warmup));
}

// Where between the lowest rate (0) and the peak (1) update `step` is, after the warm-up and before the end.
double height(const ScheduleConfig& config, int64_t step) {
  const auto since = static_cast<double>(step - config.warmup_steps);
  const double progress = since / static_cast<double>(config.total_steps - config.warmup_steps);
  switch (config.type) {
    case ScheduleType::kLinear: return 1 - progress;
    case ScheduleType::kCosine: return 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case ScheduleType::kPolynomial: return std::pow(1 - progress, config.power);
    case ScheduleType::kWsd:
      return std::min(1.0, static_cast<double>(config.total_steps - step) /
                               static_cast<double>(decay_steps(config)));
    case ScheduleType::kConstant:
    case ScheduleType::kStep:
    case ScheduleType::kPlateau: break;
  }
  return 1;
}

double reduced(const ScheduleConfig& config, double rate, double lowest, int64_t reductions) {
  return std::max(lowest, rate * std::pow(config.gamma, static_cast<double>(reductions)));
}

}  // namespace

std::string_view name_of(ScheduleType type) {
  constexpr std::string_view kNames[] = {"constant", "linear", "cosine", "polynomial",
                                         "step",     "wsd",    "plateau"};
  return kNames[static_cast<size_t>(type)];
}

void check_schedule_config(const ScheduleConfig& config, const YamlNode& tree) {
  const ScheduleConfig defaults;
  const ScheduleType type = config.type;
  const auto unused = [&](const char* key, bool used, bool is_default) {
    if (!used && !is_default) {
      config_fail(tree, fmt::format("schedule.{}", key),
                  fmt::format("{} does not use it; remove the key", name_of(type)));
    }
  };
  const bool falls = type == ScheduleType::kStep || type == ScheduleType::kPlateau;
  unused("min_lr_ratio", type != ScheduleType::kConstant,
         config.min_lr_ratio == defaults.min_lr_ratio);
  unused("power", type == ScheduleType::kPolynomial, config.power == defaults.power);
  unused("step_size", type == ScheduleType::kStep, config.step_size == defaults.step_size);
  unused("gamma", falls, config.gamma == defaults.gamma);
  unused("decay_steps", type == ScheduleType::kWsd, config.decay_steps == defaults.decay_steps);
  unused("patience", type == ScheduleType::kPlateau, config.patience == defaults.patience);
  if (type == ScheduleType::kStep && !config.step_size) {
    config_fail(tree, "schedule.step_size", "step needs it: steps between two reductions");
  }
  if (type == ScheduleType::kWsd && config.decay_steps &&
      *config.decay_steps > config.total_steps - config.warmup_steps) {
    config_fail(tree, "schedule.decay_steps",
                fmt::format("{} steps do not fit between the warm-up and the end ({} steps)",
                            *config.decay_steps, config.total_steps - config.warmup_steps));
  }
}

double learning_rate(const ScheduleConfig& config, double peak, int64_t step) {
  if (step < config.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps + 1);
  }
  if (config.type == ScheduleType::kConstant || config.type == ScheduleType::kPlateau) {
    return peak;
  }
  const double lowest = peak * config.min_lr_ratio;
  if (config.type == ScheduleType::kStep) {
    check(config.step_size.has_value(), "schedule: step needs step_size");
    return reduced(config, peak, lowest, (step - config.warmup_steps) / *config.step_size);
  }
  return step >= config.total_steps ? lowest : lowest + (peak - lowest) * height(config, step);
}

double LearningRate::at(int64_t step) const {
  const double rate = learning_rate(config_, peak_, step);
  return reductions_ == 0
             ? rate
             : reduced(config_, rate, std::min(rate, peak_ * config_.min_lr_ratio), reductions_);
}

void LearningRate::observe(double loss) {
  if (config_.type != ScheduleType::kPlateau) {
    return;
  }
  if (std::isfinite(loss) && (!best_ || loss < *best_)) {
    best_ = loss;
    waited_ = 0;
  } else if (++waited_ > config_.patience) {
    ++reductions_;
    waited_ = 0;
  }
}

Json LearningRate::state() const {
  return {
      {"best", best_ ? Json(*best_) : Json()}, {"waited", waited_}, {"reductions", reductions_}};
}

void LearningRate::restore(const Json& state) {
  const auto count = [&](const char* key) {
    const auto found = state.find(key);
    check(found != state.end() && found->is_number_integer() && *found >= 0,
          "learning rate: the saved state has no count {}", key);
    return found->get<int64_t>();
  };
  check(state.is_object() && state.contains("best"), "learning rate: the saved state is damaged");
  const Json& best = state["best"];
  check(best.is_null() || best.is_number(), "learning rate: the saved best loss is no number");
  const int64_t waited = count("waited");
  const int64_t reductions = count("reductions");
  if (config_.type != ScheduleType::kPlateau) {
    return;  // a plateau before says nothing of this rate
  }
  waited_ = waited;
  reductions_ = reductions;
  best_ = best.is_null() ? std::nullopt : std::optional(best.get<double>());
}

}  // namespace mstrain
