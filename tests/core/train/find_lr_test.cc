// The learning-rate finder: what it suggests of a curve, and what it does with a run.
#include "core/train/find_lr.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/base/rng.h"
#include "tests/core/base/message_of.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

// Falls from 3 to 1 around `middle`, and rises again after 1: with noise.
RateCurve curve_around(double middle, double noise) {
  RateCurve curve;
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const double lr = std::pow(10, -7 + 8.0 * i / 199);
    const double fall = 2 / (1 + std::exp(-2 * std::log10(lr / middle)));
    curve.lr.push_back(lr);
    curve.loss.push_back(3 - fall + (lr > 1 ? 4 * std::log10(lr) : 0) + noise * rng.normal());
  }
  return curve;
}

TEST(FindLr, SuggestsTheRateAtTheSteepestDescent) {
  for (const double middle : {1e-5, 1e-3, 3e-2}) {
    EXPECT_NEAR(std::log10(*suggested_rate(curve_around(middle, 0))), std::log10(middle), 0.1);
    EXPECT_NEAR(std::log10(*suggested_rate(curve_around(middle, 0.02))), std::log10(middle), 0.5);
  }
}

TEST(FindLr, ARateAtTheEdgeOfTheRangeAsksForAWiderOne) {
  const auto wider = [](const RateCurve& curve, bool came_to_the_end) {
    return range_to_widen(curve, *suggested_rate(curve), came_to_the_end);
  };
  const RateCurve whole = curve_around(1e-3, 0);
  EXPECT_EQ(wider(whole, true), "");
  const auto part = [&](ptrdiff_t begin, ptrdiff_t end) {
    return RateCurve{{whole.lr.begin() + begin, whole.lr.begin() + end},
                     {whole.loss.begin() + begin, whole.loss.begin() + end}};
  };
  EXPECT_EQ(wider(part(0, 90), true), "a larger find_lr.highest");
  EXPECT_EQ(wider(part(0, 90), false), "");
  EXPECT_EQ(wider(part(110, 200), true), "a smaller find_lr.lowest");
}

TEST(FindLr, SuggestsNothingWhereTheLossNeverFalls) {
  RateCurve rising;
  for (int i = 0; i < 50; ++i) {
    rising.lr.push_back(std::pow(10, -5 + 0.1 * i));
    rising.loss.push_back(1 + 0.01 * i);
  }
  EXPECT_EQ(suggested_rate(rising), std::nullopt);
  // Rates too small to move anything: noise is no descent.
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    RateCurve flat;
    Rng rng(seed);
    for (int i = 0; i < 100; ++i) {
      flat.lr.push_back(std::pow(10, -12 + 0.01 * i));
      flat.loss.push_back(5 + 0.1 * rng.normal());
    }
    EXPECT_EQ(suggested_rate(flat), std::nullopt) << seed;
  }
  EXPECT_EQ(suggested_rate({}), std::nullopt);
  EXPECT_EQ(suggested_rate({{1e-3}, {2}}), std::nullopt);
}

TEST(FindLr, SmoothingKeepsStraightLines) {
  std::vector<double> line;
  for (int i = 0; i < 100; ++i) {
    line.push_back(3 - 0.02 * i);
  }
  const std::vector<double> smooth = smoothed(line);
  for (size_t i = 0; i < line.size(); ++i) {
    EXPECT_NEAR(smooth[i], line[i], 1e-12);
  }
}

class FindLrRun : public Fit {
 protected:
  FoundRate look(const TrainConfig& config, const TrainData& data = small_data()) {
    static const std::atomic<bool> never = false;
    return find_lr(
        real_files(), config, resolved(config), small_task(0), data,
        [](const RunPlan& plan, int64_t limit) { throw PlanError(refusal(plan, limit, {})); },
        never);
  }
};

TEST_F(FindLrRun, RaisesTheRateByTheSameFactorEveryStep) {
  TrainConfig config = small_config(folder_ / "run");
  config.find_lr = {.lowest = 1e-5, .highest = 1e-2, .steps = 31};
  const FoundRate found = look(config);
  EXPECT_EQ(found.end_reason, "");
  ASSERT_EQ(found.curve.lr.size(), 31U);
  for (size_t i = 0; i < 31; ++i) {
    EXPECT_NEAR(found.curve.lr[i] / std::pow(10, -5 + 0.1 * static_cast<double>(i)), 1, 1e-9);
  }
}

TEST_F(FindLrRun, StopsWhereTheLossDivergesAndLeavesTheRunAlone) {
  TrainConfig config = small_config(folder_ / "run");
  config.optimizer.type = OptimizerType::kSgd;
  config.optimizer.clip_grad.reset();
  config.find_lr = {.lowest = 1e-4, .highest = 1e4, .steps = 200};
  const FoundRate found = look(config);
  EXPECT_LT(found.curve.lr.size(), 200U);
  EXPECT_THAT(found.end_reason, HasSubstr("at rate "));
  ASSERT_TRUE(found.suggestion.has_value());
  EXPECT_GT(*found.suggestion, 1e-4);
  EXPECT_LT(*found.suggestion, 10);
  const Json json =
      parse_json(real_files().read(join_path(found.directory, kFindLrFile)), kFindLrFile);
  EXPECT_EQ(json["suggestion"], *found.suggestion);
  EXPECT_EQ(json["loss"].size(), json["smoothed"].size());
  EXPECT_THAT(real_files().read(join_path(found.directory, kReportFile)),
              HasSubstr("\"find_lr\":{\"ended\":"));
  EXPECT_EQ(real_files().list(join_path(found.directory, "checkpoints")).size(), 0U);
  EXPECT_FALSE(real_files().exists(folder_ / "run/metrics.jsonl"));
}

TEST_F(FindLrRun, AScaleThatComesDownIsNoDivergence) {
  TrainConfig config = small_config(folder_ / "run");
  config.precision.params = FloatType::kFp16;
  config.precision.loss_scale_init = 0x1p30;
  config.find_lr = {.lowest = 1e-5, .highest = 1e-2, .steps = 60};
  const FoundRate found = look(config);
  EXPECT_EQ(found.end_reason, "");
  EXPECT_GT(found.curve.lr.size(), 30U);
  EXPECT_LT(found.curve.lr.size(), 60U) << "skipped steps say nothing of their rates";
  for (const double loss : found.curve.loss) {
    EXPECT_TRUE(std::isfinite(loss));
  }
}

TEST_F(FindLrRun, AnOverflowAtTheLeastScaleEndsIt) {
  TrainConfig config = small_config(folder_ / "run");
  config.precision.params = FloatType::kFp16;
  config.precision.loss_scale_init = 0x1p30;
  config.precision.loss_scale_min = 0x1p29;
  config.find_lr = {.lowest = 1e-5, .highest = 1e-2, .steps = 60};
  EXPECT_THAT(message_of<Error>([&] { look(config); }),
              HasSubstr("none of 2 steps changed a weight"));
}

TEST_F(FindLrRun, IsBegunAnewEveryTime) {
  TrainConfig config = small_config(folder_ / "run");
  config.find_lr = {.lowest = 1e-5, .highest = 1e-2, .steps = 10};
  const FoundRate first = look(config);
  EXPECT_EQ(look(config).curve.loss, first.curve.loss);
  EXPECT_EQ(read_metrics(real_files(), join_path(first.directory, kMetricsFile)).size(), 10U);
}

}  // namespace
}  // namespace mstrain
