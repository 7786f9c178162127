// Rules that follow evaluations, on scripted ones: exactly when a run stops, and at which learning rates it trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/log.h"
#include "core/train/early_stopping.h"
#include "core/train/reduce_on_plateau.h"
#include "core/train/time_limit.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const MetricKind& kind_of(std::string_view name) {
  for (const MetricKind& kind : kMetricKinds) {
    if (kind.name == name) {
      return kind;
    }
  }
  throw std::out_of_range(std::string(name));
}

// After step i, evaluates to values[i - 1].
class ScriptedEvaluation final : public Callback {
 public:
  ScriptedEvaluation(std::vector<double> values, std::string_view metric)
      : values_(std::move(values)), kind_(kind_of(metric)) {}
  bool wants(int64_t step, Moment) override {
    return step > last_ && step <= static_cast<int64_t>(values_.size());
  }
  void on_state(Trainer& trainer, Moment) override {
    last_ = trainer.step();
    trainer.evaluated({trainer.step(), {{&kind_, values_[static_cast<size_t>(last_ - 1)]}}, 0, {}});
  }

 private:
  std::vector<double> values_;
  const MetricKind& kind_;
  int64_t last_ = 0;
};

class RateLog final : public Callback {
 public:
  void on_step(Trainer&, const StepMetrics& metrics) override { rates.push_back(metrics.lr); }
  std::vector<double> rates;
};

// A run of the small task, an evaluation a step, whose values are `values`.
class Script {
 public:
  explicit Script(std::vector<double> values, std::string_view metric = kEvalLoss)
      : evaluation_(std::move(values), metric) {
    config.run.output_dir = folder_ / "run";
    config.run.threads = 1;
    config.batch.global = 2;
    config.optimizer.lr = 1;
    config.schedule.type = ScheduleType::kConstant;
    config.schedule.total_steps = 12;
    config.checkpoint.interval = 1000;
    previous_ = set_log_sink([this](LogLevel level, std::string_view message) {
      if (level == LogLevel::kWarning) {
        warnings.emplace_back(message);
      }
      reductions += message.find("the learning rate falls to") != std::string_view::npos ? 1 : 0;
    });
  }
  ~Script() { set_log_sink(previous_); }

  struct Result {
    int64_t step = 0;
    bool finished = false;
    std::string reason;
  };
  Result run(const std::function<Callback&(Saver&)>& make) {
    const TrainTask task = small_task();
    const TrainData data = small_data();
    const Context context = make_context(config);
    const ContextScope scope(context);
    const StepProgram program(task, config, 2, context);
    Trainer trainer(task, data, config, program);
    trainer.start(1, 2);
    const RunDirectory directory(real_files(), config.run.directory());
    MetricsLog log(directory, config, Units(), 0);
    Saver saver(directory, config, log, /*asynchronous=*/true, 0);
    const std::atomic<bool> never = false;
    const bool finished = trainer.run({&rates_, &evaluation_, &make(saver), &saver}, never);
    return {trainer.step(), finished, trainer.end_reason()};
  }
  const std::vector<double>& rates() const { return rates_.rates; }

  TrainConfig config;
  std::vector<std::string> warnings;
  int64_t reductions = 0;  // that were told of

 private:
  TemporaryFolder folder_;
  ScriptedEvaluation evaluation_;
  RateLog rates_;
  LogSink previous_;
};

struct StopCase {
  const char* what;
  std::vector<double> values;
  EarlyStoppingConfig config;
  int64_t stop;  // 12: not at all
  int64_t best;
};

TEST(EarlyStopping, StopsExactlyWhereItsTableSays) {
  const std::vector<double> falling{9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5, 0.4, 0.3};
  const StopCase kCases[] = {
      {"patience 0 lets what improves go on", falling, {.patience = 0}, 12, 12},
      {"patience 0 stops at the first that does not", {3, 2, 2, 1}, {.patience = 0}, 3, 2},
      {"patience 1 is the same", {3, 2, 2, 1}, {.patience = 1}, 3, 2},
      {"two in a row", {3, 4, 2, 4, 4, 1}, {.patience = 2}, 5, 3},
      {"an improvement starts anew", {5, 6, 4, 6, 3, 6, 6}, {.patience = 2}, 7, 5},
      {"0.0 is a value like others", {0.5, 0.0, 0.1, 0.2, 0.1}, {.patience = 3}, 5, 2},
      {"also below 0", {1, 0.0, -1, 0.0, 0.0}, {.patience = 2}, 5, 3},
      {"NaN is no improvement", {2, kNaN, 1, kNaN, kNaN}, {.patience = 2}, 5, 3},
      {"NaN first", {kNaN, 2, 3, 1, 1, 1}, {.patience = 2}, 6, 4},
      {"infinity is none either", {kInf, -kInf, kInf}, {.patience = 3}, 3, 0},
      {"min_delta", {3, 2.95, 2.85, 2.8, 2.75}, {.patience = 2, .min_delta = 0.1}, 5, 3},
      {"exactly min_delta is not enough",
       {3, 2.5, 2.5, 2.5},
       {.patience = 3, .min_delta = 0.5},
       4,
       1},
      {"max", {1, 2, 3, 2, 2}, {.mode = MonitorMode::kMax, .patience = 2}, 5, 3},
      {"never better than the baseline", {5, 4, 3, 2.5}, {.patience = 3, .baseline = 2}, 3, 3},
      {"better than it in time",
       {5, 4, 1.5, 3, 3, 1, 3, 3, 3},
       {.patience = 3, .baseline = 2},
       9,
       6},
      {"a baseline of 0", {-1, 1, 1, 1}, {.patience = 3, .baseline = 0}, 4, 1},
      {"exactly the target", falling, {.patience = 3, .target = 6}, 4, 4},
      {"beyond the target", falling, {.patience = 3, .target = 6.5}, 4, 4},
      {"a target that min_delta would not see",
       {3, 2.95},
       {.min_delta = 0.1, .target = 2.95},
       2,
       2},
      {"a target of more",
       {1, 5, 3},
       {.mode = MonitorMode::kMax, .patience = 1, .target = 4},
       2,
       2},
      {"no patience before the target", {3, 4, 4, 1}, {.patience = 2, .target = 1}, 3, 1},
  };
  for (const StopCase& it : kCases) {
    SCOPED_TRACE(it.what);
    Script script(it.values);
    std::optional<EarlyStopping> rule;
    const auto result =
        script.run([&](Saver& saver) -> Callback& { return rule.emplace(it.config, saver); });
    EXPECT_EQ(result.step, it.stop);
    EXPECT_TRUE(result.finished);
    EXPECT_EQ(rule->best_step(), it.best);
    EXPECT_EQ(result.reason.empty(), it.stop == 12);
    const auto odd = std::count_if(
        it.values.begin(),
        it.values.begin() + std::min<int64_t>(it.stop, static_cast<int64_t>(it.values.size())),
        [](double value) { return !std::isfinite(value); });
    EXPECT_EQ(static_cast<int64_t>(script.warnings.size()), odd);
  }
}

TEST(EarlyStopping, TheMetricSaysWhichWayIsBetter) {
  Script script({0.1, 0.3, 0.2, 0.2}, "eval_accuracy");
  const EarlyStoppingConfig config{.monitor = "eval_accuracy", .patience = 2};
  std::optional<EarlyStopping> rule;
  EXPECT_EQ(script.run([&](Saver& s) -> Callback& { return rule.emplace(config, s); }).step, 4);
  EXPECT_EQ(rule->best(), 0.3);
}

TEST(EarlyStopping, TheBestOfAnotherWayToBeBetterSaysNothing) {
  Script script({4, 5, 6});
  EarlyStoppingConfig config{.patience = 2};
  std::optional<EarlyStopping> rule;
  const auto rule_of = [&](Saver& saver) -> Callback& { return rule.emplace(config, saver); };
  ASSERT_EQ(script.run(rule_of).step, 3);
  const Json state = parse_json(rule->state().dump(), "state");
  const auto ended_by = [&](const Json& of_rule) {
    return EarlyStopping::ended_by(config, Json{{"early_stopping", of_rule}});
  };
  Json unsaid = state;  // as an earlier version wrote it
  unsaid.erase("larger_is_better");
  EXPECT_EQ(ended_by(state), "patience");
  EXPECT_EQ(ended_by(unsaid), "patience");
  config.mode = MonitorMode::kMin;  // as the metric says by itself
  EXPECT_EQ(ended_by(state), "patience");
  rule->restore(state);
  EXPECT_EQ(rule->best(), 4);
  config.mode = MonitorMode::kMax;
  EXPECT_EQ(ended_by(state), std::nullopt);
  Script longer({7, 6, 3, 1});
  const auto restored = [&](Saver& saver) -> Callback& {
    rule.emplace(config, saver).restore(state);
    return *rule;
  };
  EXPECT_EQ(longer.run(restored).step, 3);
  EXPECT_EQ(rule->best(), 7);
}

struct RateCase {
  const char* what;
  std::vector<double> values;
  ReduceOnPlateauConfig config;
  std::vector<double> rates;  // of steps 1, 2, …; the last one stays
};

TEST(ReduceOnPlateau, GivesExactlyTheRatesOfItsTable) {
  const RateCase kCases[] = {
      {"while it improves", {4, 3, 2, 1}, {.patience = 1}, {1}},
      {"patience 0: at the first",
       {4, 4, 3, 3},
       {.factor = 0.5, .patience = 0},
       {1, 1, 0.5, 0.5, 0.25}},
      {"every second", {4, 4, 4, 4, 4}, {.factor = 0.5, .patience = 2}, {1, 1, 1, 0.5, 0.5, 0.25}},
      {"not below min_lr",
       {4, 4, 4, 4, 4},
       {.factor = 0.25, .patience = 1, .min_lr = 0.1},
       {1, 1, 0.25, 0.1}},
      {"a cooldown does not count",
       {4, 4, 4, 4, 4, 4, 4},
       {.factor = 0.5, .patience = 1, .cooldown = 2},
       {1, 1, 0.5, 0.5, 0.5, 0.25}},
      {"what improves in a cooldown is the best",
       {4, 4, 3, 3, 3},
       {.factor = 0.5, .patience = 1, .cooldown = 2},
       {1, 1, 0.5, 0.5, 0.5, 0.25}},
      {"0.0 is a value", {1, 0.0, 0.5, 0.0}, {.factor = 0.5, .patience = 2}, {1, 1, 1, 1, 0.5}},
      {"NaN is no improvement",
       {1, kNaN, 0.5, kNaN, kNaN},
       {.factor = 0.5, .patience = 2},
       {1, 1, 1, 1, 1, 0.5}},
      {"min_delta",
       {4, 3.9, 3.8, 3.4},
       {.factor = 0.5, .patience = 2, .min_delta = 0.5},
       {1, 1, 1, 0.5}},
      {"max",
       {1, 2, 1, 3},
       {.mode = MonitorMode::kMax, .factor = 0.5, .patience = 1},
       {1, 1, 1, 0.5}},
  };
  for (const RateCase& it : kCases) {
    SCOPED_TRACE(it.what);
    Script script(it.values);
    ReduceOnPlateau rule(it.config);
    script.run([&](Saver&) -> Callback& { return rule; });
    std::vector<double> expected = it.rates;
    expected.resize(12, it.rates.back());
    EXPECT_THAT(script.rates(), ElementsAreArray(expected));
    int64_t falls = 0;
    for (size_t i = 1; i < expected.size(); ++i) {
      falls += expected[i] < expected[i - 1] ? 1 : 0;
    }
    EXPECT_EQ(script.reductions, falls);
    EXPECT_EQ(static_cast<int64_t>(script.warnings.size()),
              std::count_if(it.values.begin(), it.values.end(),
                            [](double value) { return !std::isfinite(value); }));
  }
}

TEST(ReduceOnPlateau, LowersAnySchedule) {
  Script script({4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
  script.config.schedule.type = ScheduleType::kLinear;
  const ReduceOnPlateauConfig config{.factor = 0.5, .patience = 4, .min_lr = 0.3};
  ReduceOnPlateau rule(config);
  script.run([&](Saver&) -> Callback& { return rule; });
  std::vector<double> expected;
  for (int64_t step = 0; step < 12; ++step) {
    const double rate = learning_rate(script.config.schedule, 1, step);
    const double factor = step < 5 ? 1 : step < 9 ? 0.5 : 0.25;
    expected.push_back(std::max(rate * factor, std::min(rate, factor == 1 ? 0 : 0.3)));
  }
  EXPECT_THAT(script.rates(), ElementsAreArray(expected));
}

TEST(ReduceOnPlateau, AStateIsReadBackOrRefused) {
  const ReduceOnPlateauConfig config;
  ReduceOnPlateau rule(config);
  const Json good = parse_json(rule.state().dump(), "state");
  rule.restore(good);
  EXPECT_EQ(rule.state(), good);
  for (const char* bad : {"{}", "[]", R"({"best":"x","waited":0,"cooling":0,"factor":1})",
                          R"({"best":1,"waited":-1,"cooling":0,"factor":1})",
                          R"({"best":1,"waited":0,"cooling":0,"factor":0})"}) {
    EXPECT_THROW(rule.restore(parse_json(bad, "state")), Error) << bad;
  }
}

TEST(ReduceOnPlateau, TheBestOfAnotherMonitorSaysNothing) {
  const auto restored = [](MonitorMode mode, const char* more) {
    const ReduceOnPlateauConfig config{.monitor = "eval_accuracy", .mode = mode};
    Json state = parse_json(R"({"best":4.5,"waited":1,"cooling":2,"factor":0.5})", "state");
    state.update(parse_json(more, "state"));
    ReduceOnPlateau rule(config);
    rule.restore(state);
    return rule.state();
  };
  const auto expected = [](const char* larger_is_better, const char* best, int waited) {
    return parse_json(fmt::format(R"({{"monitor":"eval_accuracy","larger_is_better":{},"best":{},)"
                                  R"("waited":{},"cooling":2,"factor":0.5}})",
                                  larger_is_better, best, waited),
                      "state");
  };
  const Json kept = expected("true", "4.5", 1);
  const char* const kSame = R"({"monitor":"eval_accuracy","larger_is_better":true})";
  EXPECT_EQ(restored(MonitorMode::kAuto, kSame), kept);
  EXPECT_EQ(restored(MonitorMode::kMax, kSame), kept);
  EXPECT_EQ(restored(MonitorMode::kMin, kSame), expected("false", "null", 0));
  EXPECT_EQ(restored(MonitorMode::kAuto, R"({"monitor":"eval_loss"})"),
            expected("true", "null", 0));
  // Earlier versions did not say it.
  EXPECT_EQ(restored(MonitorMode::kAuto, "{}"), kept);
  EXPECT_EQ(restored(MonitorMode::kMax, R"({"monitor":"eval_accuracy"})"), kept);
}

TimeLimit::Clock::time_point two_hours_later() {
  static int calls = 0;
  return TimeLimit::Clock::time_point() + std::chrono::minutes(40 * ++calls);
}

TEST(TimeLimit, EndsTheRunAsAnInterruptionDoes) {
  Script script({});
  TimeLimit limit(2, TimeLimit::Clock::time_point(), two_hours_later);
  const auto result = script.run([&](Saver&) -> Callback& { return limit; });
  EXPECT_FALSE(result.finished);
  EXPECT_EQ(result.step, 4);  // told of step 3, after 120 minutes, when step 4 was under way
  EXPECT_THAT(result.reason, HasSubstr("run.time_limit_hours"));
}

// The largest norms that steps may have, and which are skipped.
TEST(StepGuard, SkipsWhatStandsOut) {
  set_log_sink([](LogLevel, std::string_view) {});
  UpdateConfig config;
  config.skip_spikes = SkipSpikesConfig{.deviations = 3, .window = 4};
  const PrecisionConfig precision;
  StepGuard guard(config, precision);
  const float any = std::numeric_limits<float>::max();
  const std::vector<double> norms{1, 3, 1, 3, 1, 9, 3, 1};
  std::vector<float> limits;
  std::vector<bool> updated;
  for (size_t i = 0; i < norms.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    limits.push_back(guard.limit(step));
    updated.push_back(guard.observe(step, 1, norms[i]));
  }
  // Of steps 6 and 7: mean 2, deviation 1 of the four norms up to two steps before. The 9 counts from step 8 on.
  const auto later = static_cast<float>(3.5 + 3 * std::sqrt(10.75));
  EXPECT_THAT(limits, ElementsAre(any, any, any, any, any, 5, 5, testing::FloatEq(later)));
  EXPECT_THAT(updated, ElementsAre(true, true, true, true, true, false, true, true));
  EXPECT_EQ(guard.skipped(), 1);

  StepGuard other(config, precision);
  other.restore(parse_json(guard.state().dump(), "state"));
  EXPECT_EQ(other.limit(9), guard.limit(9));
  EXPECT_EQ(other.state(), guard.state());
  EXPECT_THROW(other.restore(Json::object()), Error);
  set_log_sink(nullptr);
}

TEST(StepGuard, NamesEveryRateThatMayHaveBeenTooMuch) {
  const UpdateConfig config;
  const PrecisionConfig precision;
  const auto advice = [&](bool has_rows) -> std::string {
    StepGuard guard(config, precision, has_rows);
    try {
      guard.observe(1, kNaN, kNaN);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(advice(false), HasSubstr("--change optimizer.lr=LESS, a lower"));
  EXPECT_THAT(advice(true), HasSubstr("--change optimizer.lr=LESS (rows of ids: "
                                      "embedding.optimizer.lr, embedding.wide_optimizer.lr)"));
}

TEST(StepGuard, EndlessSkippingIsAnError) {
  set_log_sink([](LogLevel, std::string_view) {});
  UpdateConfig config;
  config.not_finite = NotFinite::kSkip;
  config.max_skipped = 2;
  const PrecisionConfig precision;
  StepGuard guard(config, precision);
  EXPECT_FALSE(guard.observe(1, kNaN, 1));
  EXPECT_FALSE(guard.observe(2, 1, kInf));
  EXPECT_TRUE(guard.observe(3, 1, 1));
  EXPECT_FALSE(guard.observe(4, kNaN, kNaN));
  EXPECT_FALSE(guard.observe(5, kNaN, kNaN));
  EXPECT_THROW(guard.observe(6, kNaN, kNaN), Error);
  set_log_sink(nullptr);
}

}  // namespace
}  // namespace mstrain
