#include "core/train/planned_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/shape.h"
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

// As a prompt's answers, which share it in micro-batches that hold all of them.
TEST(Plan, AutoTakesWholeGroupsOfSamplesWhereTheyFit) {
  TrainTask task = small_task();
  task.samples_together = 4;
  task.sums = [sums = task.sums](const Params& params, std::span<const Tensor> batch) {
    if (batch[0].dim(0) % 4 == 0) {
      return sums(params, batch);
    }
    Tensors repeated;
    for (const Tensor& x : batch) {
      repeated.push_back(concat(Tensors(64, x), 0));
    }
    return sums(params, repeated);
  };
  TrainConfig config = small_config("unused");
  config.batch.global = 24;
  config.checkpoint.async = false;
  const Context context = make_context(config);
  const auto total = [&](int64_t micro) {
    return plan_run(task, config, context, kPlenty, true, micro).plan.total();
  };
  ASSERT_GT(total(1), total(12));
  EXPECT_EQ(plan_run(task, config, context, total(4), true).plan.micro, 4);
  EXPECT_EQ(plan_run(task, config, context, total(8), true).plan.micro, 8);
  EXPECT_EQ(plan_run(task, config, context, kPlenty, true).plan.micro, 24);
  EXPECT_EQ(plan_run(task, config, context, total(4) - 1, true).plan.micro, 1);
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
  EXPECT_EQ(changes.fitting[0].overrides, (Overrides{"a=1", "b=2"}));
  EXPECT_EQ(changes.fitting[1].overrides, (Overrides{"d=1", "e=1"}));
  EXPECT_EQ(changes.least->plan.total(), 400);
  EXPECT_THAT(refusal(plan, 500, changes), HasSubstr("\n  a=1 b=2 "));
  EXPECT_THAT(refusal(plan, 500, {}), HasSubstr("or a smaller model"));
}

TEST(Plan, OfAKindTheMildestThatFitsIsFoundInAFewPlans) {
  std::vector<Overrides> kind;
  for (int i = 0; i < 64; ++i) {
    kind.push_back({std::to_string(i)});
  }
  int plans = 0;
  const PlanWith plan_with = [&](const Overrides& overrides) {
    ++plans;
    RunPlan plan;
    plan.step.inputs = 1000 - 10 * std::stoi(overrides[0]);
    return plan;
  };
  const Changes changes = fitting_changes({kind}, plan_with, 666);
  ASSERT_EQ(changes.fitting.size(), 1U);
  EXPECT_EQ(changes.fitting[0].overrides[0], "34");
  EXPECT_EQ(changes.least->overrides[0], "63");
  EXPECT_LE(plans, 8);
}

// What a choice saves is one thing, that a copy for checkpoints then fits another.
TEST(Plan, NoChoiceSavesLessThanNothingWithoutAReason) {
  RunPlan base;
  base.cost.flops = 100;
  base.step.arena = 1'000'000'000;
  Alternative roomier{{"a=1"}, base};
  roomier.plan.step.arena = 900'000'000;
  roomier.plan.snapshot_bytes = 500'000'000;
  Alternative costlier{{"b=1"}, base};
  costlier.plan.step.arena = 1'100'000'000;
  costlier.plan.cost.flops = 90;
  const std::string text = describe(std::vector{roomier, costlier}, base);
  EXPECT_THAT(text, HasSubstr("a=1   saves     100,000,000    0.10 GB, adds 0 FLOPs to a step "
                              "(0.00 %); leaves room for the 0.50 GB of checkpoint.async\n"));
  EXPECT_THAT(text, HasSubstr("b=1   takes     100,000,000    0.10 GB, saves 10 FLOPs of a step"));
  EXPECT_EQ(describe({}, base), "");
}

TEST(Plan, LeanerStatesAreOfferedUntilThereAreNone) {
  PrecisionConfig config;
  const auto all = leaner_precisions(config);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0], (Overrides{"precision.moments=int8"}));
  EXPECT_EQ(all[1],
            (Overrides{"precision.moments=int8", "precision.params=bf16", "precision.grads=bf16"}));
  EXPECT_EQ(all[2].back(), "precision.master=none");
  config = {.params = FloatType::kFp16};
  EXPECT_EQ(leaner_precisions(config).back(),
            (Overrides{"precision.moments=int8", "precision.grads=fp16"}));
  config = {.params = FloatType::kBf16,
            .grads = FloatType::kBf16,
            .master = MasterType::kNone,
            .moments = MomentType::kInt8};
  EXPECT_TRUE(leaner_precisions(config).empty());
}

// Five equal layers of 8 numbers more than three tell what nine are.
TEST(Plan, ManyBlocksFollowFromFew) {
  const auto plan = [](int64_t layers) {
    TrainTask task;
    const auto model = [layers](const Params& p, Tensor x) {
      for (int64_t i = 0; i < layers; ++i) {
        x = x + tanh(linear(p / "h" / i, x, {8}));
      }
      return x;
    };
    task.parameters = declare_params([&](const Params& p) {
      model(p, zeros({Dtype::kF32, {1, 8}}));
    });
    for (const ParamSpec& spec : task.parameters) {
      task.stored_shapes.push_back(spec.type.shape);
    }
    task.batch_types = [](int64_t rows) { return Types{{Dtype::kF32, {rows, 8}}}; };
    task.sums = [model](const Params& p, std::span<const Tensor> batch) {
      const Tensor errors = square(model(p, batch[0]));
      return TaskSums{{sum(errors), full({}, static_cast<double>(errors.elements()))}, {}};
    };
    TrainConfig config = small_config("unused");
    config.batch.global = 1024;
    config.checkpoint.async = false;
    return plan_run(task, config, make_context(config), kPlenty, true).plan;
  };
  const RunPlan exact = plan(20);
  const RunPlan about = extrapolated(plan(4), 4, plan(8), 8, 20);
  EXPECT_EQ(about.parameters, exact.parameters);
  EXPECT_EQ(about.parameter_bytes, exact.parameter_bytes);
  EXPECT_EQ(about.optimizer_bytes, exact.optimizer_bytes);
  EXPECT_EQ(about.step.inputs, exact.step.inputs);
  EXPECT_NEAR(about.cost.flops / exact.cost.flops, 1, 1e-6);
  EXPECT_NEAR(static_cast<double>(about.total()) / static_cast<double>(exact.total()), 1, 0.02);
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
