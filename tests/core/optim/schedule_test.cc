#include "core/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ScheduleConfig schedule(ScheduleType type) {
  return {.type = type, .warmup_steps = 10, .total_steps = 110, .min_lr_ratio = 0.1};
}
double rate(const ScheduleConfig& config, int64_t step) { return learning_rate(config, 1, step); }

TEST(Schedule, WarmsUpWithoutAWastedStep) {
  for (ScheduleType type : {ScheduleType::kConstant, ScheduleType::kLinear, ScheduleType::kCosine,
                            ScheduleType::kWsd, ScheduleType::kPlateau}) {
    const ScheduleConfig config = schedule(type);
    EXPECT_DOUBLE_EQ(rate(config, 0), 1.0 / 11);
    EXPECT_DOUBLE_EQ(rate(config, 9), 10.0 / 11);
    EXPECT_DOUBLE_EQ(rate(config, 10), 1);
    EXPECT_DOUBLE_EQ(learning_rate(config, 3e-4, 4), 3e-4 * 5 / 11);
  }
}

TEST(Schedule, ConstantStays) {
  const ScheduleConfig config = schedule(ScheduleType::kConstant);
  EXPECT_EQ(rate(config, 50), 1);
  EXPECT_EQ(rate(config, 1000), 1);
}

TEST(Schedule, LinearReachesTheLowestRateAfterTheLastStep) {
  const ScheduleConfig config = schedule(ScheduleType::kLinear);
  EXPECT_DOUBLE_EQ(rate(config, 60), 0.55);
  EXPECT_DOUBLE_EQ(rate(config, 109), 0.1 + 0.9 * 0.01);
  EXPECT_DOUBLE_EQ(rate(config, 110), 0.1);
  EXPECT_DOUBLE_EQ(rate(config, 5000), 0.1);
}

// nanoGPT: coeff = 0.5 (1 + cos(pi (it - warmup) / (decay - warmup))); min_lr + coeff (lr - min_lr).
TEST(Schedule, CosineIsNanoGpts) {
  const ScheduleConfig config = schedule(ScheduleType::kCosine);
  EXPECT_DOUBLE_EQ(rate(config, 60), 0.55);
  EXPECT_DOUBLE_EQ(rate(config, 35), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_NEAR(rate(config, 109), 0.1 + 0.9 * 0.5 * (1 + std::cos(3.14159265358979 * 0.99)), 1e-12);
  EXPECT_DOUBLE_EQ(rate(config, 110), 0.1);
}

TEST(Schedule, PolynomialHasAnExponent) {
  ScheduleConfig config = schedule(ScheduleType::kPolynomial);
  EXPECT_DOUBLE_EQ(rate(config, 60), 0.55);
  config.power = 2;
  EXPECT_DOUBLE_EQ(rate(config, 60), 0.1 + 0.9 * 0.25);
  EXPECT_DOUBLE_EQ(rate(config, 110), 0.1);
}

TEST(Schedule, StepFallsByGammaAndNotBelowTheLowest) {
  ScheduleConfig config = schedule(ScheduleType::kStep);
  config.step_size = 30;
  config.gamma = 0.25;
  EXPECT_DOUBLE_EQ(rate(config, 39), 1);
  EXPECT_DOUBLE_EQ(rate(config, 40), 0.25);
  EXPECT_DOUBLE_EQ(rate(config, 69), 0.25);
  EXPECT_DOUBLE_EQ(rate(config, 70), 0.1);
  EXPECT_DOUBLE_EQ(rate(config, 500), 0.1);
}

TEST(Schedule, WsdIsStableThenDecays) {
  ScheduleConfig config = schedule(ScheduleType::kWsd);
  EXPECT_DOUBLE_EQ(rate(config, 99), 1);  // a tenth of 110 steps is 11: from 99 on
  config.decay_steps = 20;
  EXPECT_DOUBLE_EQ(rate(config, 90), 1);
  EXPECT_DOUBLE_EQ(rate(config, 91), 0.1 + 0.9 * 0.95);
  EXPECT_DOUBLE_EQ(rate(config, 109), 0.1 + 0.9 * 0.05);
  EXPECT_DOUBLE_EQ(rate(config, 110), 0.1);
}

TEST(Schedule, NoWarmUpStartsAtThePeak) {
  const ScheduleConfig config{.total_steps = 10};
  EXPECT_EQ(rate(config, 0), 1);
  EXPECT_EQ(rate(config, 10), 0);
}

TEST(Schedule, ARunMayEndInsideItsWarmUp) {
  const ScheduleConfig config{.warmup_steps = 100, .total_steps = 5};
  EXPECT_DOUBLE_EQ(rate(config, 4), 5.0 / 101);
  EXPECT_EQ(rate(config, 100), 0);
}

TEST(Plateau, FallsAfterEvaluationsThatAreNoBetter) {
  ScheduleConfig config = schedule(ScheduleType::kPlateau);
  config.patience = 1;
  config.gamma = 0.5;
  LearningRate lr(config, 1);
  const auto after = [&](double loss) {
    lr.observe(loss);
    return lr.at(50);
  };
  EXPECT_EQ(after(3), 1);
  EXPECT_EQ(after(2), 1);
  EXPECT_EQ(after(2), 1);  // no better: waits once
  EXPECT_EQ(after(2.5), 0.5);
  EXPECT_EQ(after(2.1), 0.5);
  EXPECT_EQ(after(1.9), 0.5);  // better: waiting starts again
  EXPECT_EQ(after(NAN), 0.5);
  EXPECT_EQ(after(INFINITY), 0.25);
  for (int i = 0; i < 20; ++i) {
    lr.observe(9);
  }
  EXPECT_EQ(lr.at(50), 0.1);
  EXPECT_LE(lr.at(0), 1.0 / 11);
}

TEST(Plateau, GoesOnFromItsState) {
  ScheduleConfig config = schedule(ScheduleType::kPlateau);
  config.patience = 2;
  const std::vector<double> losses{5, 4, 4.5, 4.2, 4.1, 3, 3.3, 3.4, 3.1, 3.5, 2, 6, 6, 6};
  for (size_t cut = 0; cut <= losses.size(); ++cut) {
    LearningRate straight(config, 1);
    LearningRate stopped(config, 1);
    for (size_t i = 0; i < losses.size(); ++i) {
      if (i == cut) {
        const Json saved = Json::parse(stopped.state().dump());
        stopped = LearningRate(config, 1);
        stopped.restore(saved);
      }
      straight.observe(losses[i]);
      stopped.observe(losses[i]);
      EXPECT_EQ(straight.at(60), stopped.at(60));
    }
  }
}

TEST(Plateau, RefusesADamagedState) {
  LearningRate lr(schedule(ScheduleType::kPlateau), 1);
  for (const char* text :
       {"{}", "[]", "3", R"({"best": "x", "waited": 0, "reductions": 0})",
        R"({"best": 1, "waited": -1, "reductions": 0})", R"({"best": 1, "waited": 0})"}) {
    EXPECT_THROW(lr.restore(Json::parse(text)), Error) << text;
  }
}

TEST(Schedule, OthersDoNotListenToEvaluations) {
  LearningRate lr(schedule(ScheduleType::kLinear), 1);
  for (int i = 0; i < 10; ++i) {
    lr.observe(5);
  }
  EXPECT_DOUBLE_EQ(lr.at(60), 0.55);
}

TEST(Schedule, TakesNothingOverFromAPlateauBeforeIt) {
  ScheduleConfig config = schedule(ScheduleType::kPlateau);
  config.patience = 0;
  LearningRate plateau(config, 1);
  for (int i = 0; i < 5; ++i) {
    plateau.observe(5);
  }
  ASSERT_EQ(plateau.state()["reductions"], 4);
  LearningRate cosine(schedule(ScheduleType::kCosine), 1);
  cosine.restore(plateau.state());
  EXPECT_EQ(cosine.at(60), learning_rate(schedule(ScheduleType::kCosine), 1, 60));
  LearningRate again(config, 1);
  again.restore(cosine.state());
  EXPECT_EQ(again.at(60), 1);
}

TEST(ScheduleConfig, RefusesKeysThatTheTypeDoesNotUse) {
  const auto expect_refused = [](const std::string& yaml, const std::string& message) {
    const YamlNode tree = parse_yaml("schedule: " + yaml, "my.yaml");
    ScheduleConfig config;
    read_config(*find_config(tree, "schedule"), config);
    EXPECT_THAT([&] { check_schedule_config(config, tree); },
                ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  expect_refused("{type: constant, min_lr_ratio: 0.1}",
                 "my.yaml:1: schedule.min_lr_ratio: constant does not use it");
  expect_refused("{type: cosine, power: 2}", "schedule.power");
  expect_refused("{type: linear, step_size: 2}", "schedule.step_size");
  expect_refused("{type: wsd, gamma: 0.5}", "schedule.gamma");
  expect_refused("{type: cosine, decay_steps: 5}", "schedule.decay_steps");
  expect_refused("{type: step, step_size: 3, patience: 1}", "schedule.patience");
  expect_refused("{type: step}", "schedule.step_size: step needs it");
  expect_refused("{type: wsd, total_steps: 10, warmup_steps: 5, decay_steps: 6}",
                 "6 steps do not fit");
}

}  // namespace
}  // namespace mstrain
