#include "core/train/planned_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/train/numbers.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

constexpr int64_t kPlenty = int64_t{1} << 40;

TEST(Plan, CountsWhatTheRunHolds) {
  const TrainTask task = small_task();
  const TrainConfig config = small_config("unused");
  const RunPlan plan = plan_run(task, config, make_context(config), kPlenty, true).plan;
  EXPECT_EQ(plan.parameters, 4 * 8 + 8 + 8 + 1);
  EXPECT_EQ(plan.parameter_bytes, 4 * plan.parameters);
  EXPECT_EQ(plan.optimizer_bytes, 8 * plan.parameters + 4);  // two moments and the step
  EXPECT_EQ(plan.micro, 8);
  EXPECT_GE(plan.total(), plan.parameter_bytes + plan.optimizer_bytes + plan.step.arena);
  const std::string text = describe(plan, config, kPlenty);
  EXPECT_THAT(text, HasSubstr("small: 49 parameters"));
  EXPECT_THAT(text, HasSubstr(grouped(plan.total())));
}

TEST(Plan, AllocatesNothing) {
  const TrainTask task = small_task();
  const TrainConfig config = small_config("unused");
  const Context context = make_context(config);
  const ContextScope scope(context);
  plan_run(task, config, context, kPlenty, true);
  EXPECT_EQ(context.allocator->stats().peak_bytes, 0);
}

TEST(Plan, AutoTakesTheLargestMicroBatchThatFits) {
  const TrainTask task = small_task();
  TrainConfig config = small_config("unused");
  config.batch.global = 4096;
  config.checkpoint.async = false;
  const Context context = make_context(config);
  const auto total = [&](int64_t micro) {
    return plan_run(task, config, context, kPlenty, true, micro).plan.total();
  };
  EXPECT_LT(total(64), total(4096));
  EXPECT_EQ(plan_run(task, config, context, kPlenty, true).plan.micro, 4096);
  EXPECT_EQ(plan_run(task, config, context, total(512), true).plan.micro, 512);
  EXPECT_EQ(plan_run(task, config, context, total(512) - 1, true).plan.micro, 256);
  EXPECT_EQ(plan_run(task, config, context, 1, true).plan.micro, 1);
}

TEST(Plan, ACopyForCheckpointsIsCountedAndNeverCostsMore) {
  const TrainTask task = small_task();
  TrainConfig config = small_config("unused");
  const Context context = make_context(config);
  const auto plan = [&](int64_t limit) {
    return plan_run(task, config, context, limit, true).plan;
  };
  const RunPlan with = plan(kPlenty);
  EXPECT_EQ(with.snapshot_bytes, 3 * with.parameter_bytes);  // and two moments
  EXPECT_THAT(describe(with, config, kPlenty), HasSubstr("snapshot"));
  EXPECT_EQ(plan(with.total()).snapshot_bytes, with.snapshot_bytes);
  const RunPlan tight = plan(with.total() - 1);
  EXPECT_EQ(tight.snapshot_bytes, 0);
  EXPECT_EQ(tight.micro, with.micro);
  EXPECT_EQ(tight.total(), with.total() - with.snapshot_bytes);
  config.checkpoint.async = false;
  EXPECT_EQ(plan(kPlenty).snapshot_bytes, 0);
  config.checkpoint.async = true;
  EXPECT_EQ(plan(with.total() - 1).snapshot_bytes, with.snapshot_bytes);
}

TEST(Plan, ARefusalNamesChangesThatWouldFit) {
  RunPlan plan;
  plan.parameter_bytes = 100;
  plan.step.inputs = 1000;
  const PlanWith plan_with = [&](const std::vector<std::string>& overrides) {
    RunPlan changed = plan;
    changed.step.inputs = overrides.size() > 1 ? 400 : 900;
    return changed;
  };
  const auto changes =
      fitting_changes({{{"a=1"}, {"a=1", "b=2"}}, {{"c=1"}}, {{"d=1", "e=1"}}}, plan_with, 500);
  ASSERT_EQ(changes.fitting.size(), 2U);
  EXPECT_EQ(changes.fitting[0].overrides, "a=1 b=2");
  EXPECT_EQ(changes.fitting[1].overrides, "d=1 e=1");
  EXPECT_EQ(changes.least, 400);
  EXPECT_THAT(refusal(plan, 500, changes), HasSubstr("\n  a=1 b=2 "));
  EXPECT_THAT(refusal(plan, 500, {}), HasSubstr("or a smaller model"));
}

TEST(Numbers, AreWrittenForPeople) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(124439808), "124,439,808");
  EXPECT_EQ(short_number(999.4), "999");
  EXPECT_EQ(short_number(999.6), "1.00k");
  EXPECT_EQ(short_number(12345), "12.3k");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(3723), "1:02:03");
}

}  // namespace
}  // namespace mstrain
