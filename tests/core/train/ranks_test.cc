// A run that many ranks share is the run of one, bit for bit: its checkpoints, and what it logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exec/execute.h"
#include "core/nn/follow_scope.h"
#include "core/ops/collective.h"
#include "core/ops/shape.h"
#include "core/train/shared_plan.h"
#include "tests/amount.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

constexpr int64_t kSteps = 30;

// Three layers with dropout, of which one is a hidden one and large enough for parts of eight ranks, and unevenly so, and is centred by a
// running mean. Predictions whose target is negative count nothing.
Tensor wide_model(const Params& p, const Tensor& x) {
  const Tensor first = tanh(linear(p / "in", x, {150}));
  Tensor second = dropout(p / "drop", tanh(linear(p / "mid" / 0, first, {96})), 0.1);
  const Tensor centre = p.followed("mid.centre", {96}, zeros_init());
  if (current_context().training) {
    FollowScope::follow(centre, 0.9 * centre + 0.1 * mean(second, {0}));
  }
  second = second - stop_gradient(centre);
  return linear(p / "out", second, {1});
}

// Of several layers that are large enough.
Tensor deep_model(const Params& p, const Tensor& x) {
  Tensor h = x;
  for (const char* const name : {"a", "b", "c", "d", "e", "f"}) {
    h = tanh(linear(p / name, h, {128}));
  }
  return linear(p / "out", h, {1});
}

TrainTask wide_task(Tensor (*model)(const Params&, const Tensor&) = wide_model) {
  TrainTask task = regression_task(model);
  task.sums = [model](const Params& p, std::span<const Tensor> batch) {
    const Tensor counts = cast(batch[1] >= 0, Dtype::kF32);
    const Tensor errors = square(model(p, batch[0]) - batch[1]);
    return TaskSums{{sum(cast(errors, Dtype::kF32) * counts), sum(counts)}, {}};
  };
  return task;
}

TrainConfig wide_config(const std::string& directory) {
  TrainConfig config = small_config(directory);
  config.batch.micro = 1;
  config.schedule.total_steps = kSteps;
  config.checkpoint.interval = 10;
  config.eval.interval = 10;
  config.optimizer.clip_grad = 0.05;
  config.optimizer.weight_decay = 0.1;
  config.parallel.zero.min_numel = 0;
  return config;
}

struct Case {
  const char* name;
  void (*change)(TrainConfig& config);
};
const Case kCases[] = {
    {"plain", [](TrainConfig&) {}},
    {"bf16_with_master", [](TrainConfig& c) { c.precision.params = FloatType::kBf16; }},
    {"moments_of_8_bits",
     [](TrainConfig& c) {
       c.precision.params = FloatType::kBf16;
       c.precision.grads = FloatType::kBf16;
       c.precision.moments = MomentType::kInt8;
       c.log.layers = 5;
     }},
    {"no_master_bf16_moments",
     [](TrainConfig& c) {
       c.precision.params = FloatType::kBf16;
       c.precision.master = MasterType::kNone;
       c.precision.moments = MomentType::kBf16;
     }},
    {"fp16_with_loss_scale",
     [](TrainConfig& c) {
       c.precision.params = FloatType::kFp16;
       c.precision.loss_scale_init = 1e7;
       c.precision.loss_scale_interval = 3;
     }},
    {"lamb", [](TrainConfig& c) { c.optimizer.type = OptimizerType::kLamb; }},
    {"lamb_without_eps",
     [](TrainConfig& c) {
       c.optimizer.type = OptimizerType::kLamb;
       c.optimizer.eps = 0;
     }},
    {"sgd",
     [](TrainConfig& c) {
       c.optimizer.type = OptimizerType::kSgd;
       c.optimizer.momentum = 0.9;
     }},
    {"muon",
     [](TrainConfig& c) {
       c.optimizer.type = OptimizerType::kMuon;
       c.optimizer.momentum = 0.95;
       c.optimizer.nesterov = true;
     }},
    {"muon_with_short_moments",
     [](TrainConfig& c) {
       c.precision.params = FloatType::kBf16;
       c.precision.moments = MomentType::kInt8;
       c.optimizer.type = OptimizerType::kMuon;
       c.optimizer.momentum = 0.95;
     }},
    {"micro_batches_of_two", [](TrainConfig& c) { c.batch.micro = 2; }},
    {"in_place_and_in_small_bundles",
     [](TrainConfig& c) {
       c.parallel.overlap = {.gradients = false, .parameters = false};
       c.parallel.bucket_mb = 1e-4;
     }},
    {"gathered_anew", [](TrainConfig& c) { c.parallel.zero.regather = Regather::kAlways; }},
    {"in_groups_of_two", [](TrainConfig& c) { c.parallel.zero.group = 2; }},
    {"in_groups_of_two_with_short_moments",
     [](TrainConfig& c) {
       c.parallel.zero.group = 2;
       c.precision.params = FloatType::kBf16;
       c.precision.grads = FloatType::kBf16;
       c.precision.moments = MomentType::kInt8;
       c.optimizer.type = OptimizerType::kLamb;
     }},
    {"eager", [](TrainConfig& c) { c.run.execution = Execution::kEager; }},
};

class SharedRun : public testing::Test {
 protected:
  // The case's run of `ranks` in a directory of its own.
  std::string run(const Case& given, int ranks, int64_t stage, const std::string& name,
                  int64_t steps = kSteps, ReductionOrder order = ReductionOrder::kExact) {
    TrainConfig config = wide_config(folder_ / name);
    given.change(config);
    config.parallel.zero.stage = stage;
    config.parallel.reduction = order;
    config.schedule.total_steps = steps;
    config.schedule.type = ScheduleType::kConstant;
    train_on(config, ranks);
    return config.run.directory();
  }

  static void train_on(const TrainConfig& config, int ranks, const TrainTask& task = wide_task()) {
    if (ranks == 1) {
      run_small(config, real_files(), small_data(), task);
      return;
    }
    run_ranks(mesh_of(config.parallel, ranks), [&](std::shared_ptr<Ranks> mesh) {
      SessionStart start;
      start.ranks = std::move(mesh);
      run_small(config, real_files(), small_data(), task, nullptr, start);
    });
  }

  const Case& plain() const { return kCases[0]; }
  TemporaryFolder folder_;
};

TEST_F(SharedRun, HasTheBitsOfOneRankForEveryStageAndNumberOfRanks) {
  const std::string alone = run(plain(), 1, 0, "alone");
  for (const int ranks : {2, 4, 8}) {
    for (const int64_t stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, stage {}", ranks, stage));
      expect_same_run(alone, run(plain(), ranks, stage, fmt::format("{}_{}", ranks, stage)),
                      kSteps);
    }
  }
}

TEST_F(SharedRun, HasTheBitsOfOneRankForEveryOptimizerAndPrecision) {
  for (const Case& given : kCases) {
    const std::string alone = run(given, 1, 0, std::string(given.name) + "_alone");
    for (const int64_t stage :
         long_tests() ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{1, 3}) {
      SCOPED_TRACE(fmt::format("{}, stage {}", given.name, stage));
      expect_same_run(alone, run(given, 4, stage, fmt::format("{}_{}", given.name, stage)), kSteps);
    }
  }
}

TEST_F(SharedRun, GoesOnUnderAnotherLayoutWithTheSameBits) {
  const Case& given = kCases[2];
  const std::string alone = run(given, 1, 0, "alone");
  struct Layout {
    int ranks;
    int64_t stage;
  };
  const std::vector<std::vector<Layout>> ways{{{4, 2}, {1, 0}, {8, 3}}, {{8, 3}, {2, 1}, {1, 0}}};
  for (const std::vector<Layout>& layouts : ways) {
    std::string moves;
    int64_t steps = 0;
    for (const auto& [ranks, stage] : layouts) {
      moves = run(given, ranks, stage, fmt::format("moves_{}", layouts[0].ranks), steps += 10);
    }
    expect_same_run(alone, moves, kSteps);
  }
}

// All ranks evaluate again what the first one's file has of after the checkpoint.
TEST_F(SharedRun, GoesOnFromBeforeItsNewestMetrics) {
  const std::string alone = run(plain(), 1, 0, "alone");
  const std::string lost = run(plain(), 2, 0, "lost");
  std::filesystem::remove_all(join_path(join_path(lost, "checkpoints"), checkpoint_name(kSteps)));
  run(plain(), 2, 0, "lost");
  expect_same_run(alone, lost, kSteps);
}

TEST_F(SharedRun, KeepsSmallParametersWhole) {
  TrainConfig config = wide_config(folder_ / "run");
  const auto bytes = [&](int64_t min_numel) {
    config.parallel.zero.min_numel = min_numel;
    config.parallel.data = 4;
    const Context context = make_context(config);
    return plan_run(wide_task(), config, context, int64_t{1} << 40, false).plan.optimizer_bytes;
  };
  EXPECT_LT(bytes(0), bytes(1 << 20) / 2);
  config.parallel.data = 1;
  EXPECT_EQ(bytes(1 << 20),
            plan_run(wide_task(), config, make_context(config), int64_t{1} << 40, false)
                .plan.optimizer_bytes);
}

TEST_F(SharedRun, PlansForWholeWeightsWhereSomethingAsksForThem) {
  TrainConfig config = wide_config(folder_ / "run");
  config.parallel.data = 4;
  config.parallel.zero.stage = 3;
  TrainTask task = wide_task();
  const auto whole = [&] {
    const Context context = make_context(config);
    return plan_run(task, config, context, int64_t{1} << 40, false).plan.whole_bytes;
  };
  EXPECT_EQ(whole(), 0);
  task.asks_whole_weights = true;
  const int64_t all = whole();
  EXPECT_GT(all, 0);
  task.asks_whole_weights = false;
  config.log.layers = int64_t{1};
  EXPECT_EQ(whole(), all);
}

TEST(StepOfRanks, KeepsGatheredParametersWhereMemoryAllows) {
  TrainConfig config = wide_config("none");
  config.batch.micro = 1;
  config.checkpoint.async = false;
  config.parallel.zero.stage = 3;
  config.parallel.overlap = {.gradients = false, .parameters = false};
  const TrainTask task = wide_task(deep_model);
  const auto planned = [&](Regather regather, int64_t limit) {
    config.parallel.data = 4;
    config.parallel.zero.regather = regather;
    return plan_run(task, config, make_context(config), limit, false).plan;
  };
  constexpr int64_t kMuch = int64_t{1} << 40;
  const RunPlan kept = planned(Regather::kNever, kMuch);
  const RunPlan anew = planned(Regather::kAlways, kMuch);
  EXPECT_EQ(kept.regathers, false);
  EXPECT_EQ(anew.regathers, true);
  ASSERT_LT(anew.total(), kept.total());
  EXPECT_EQ(planned(Regather::kAuto, kept.total()).regathers, false);
  EXPECT_EQ(planned(Regather::kAuto, kept.total() - 1).regathers, true);
  // All ranks have one program: that of the one which has least memory.
  config.parallel.data = -1;
  run_ranks(4, [&](const std::shared_ptr<Ranks>& ranks) {
    const int64_t limit = ranks->rank() == 2 ? kept.total() - 1 : kMuch;
    const PlannedRun run = plan_together(task, config, current_context(), limit, false);
    EXPECT_EQ(run.plan.regathers, true);
    EXPECT_EQ(run.plan.total(), anew.total());
  });
  config.parallel.zero.stage = 1;
  EXPECT_EQ(planned(Regather::kAuto, kMuch).regathers, std::nullopt);
}

// Exchanges of a plan, and of the loops in it, that `counts` holds for.
int64_t exchanges_of(const Plan& plan, std::string_view op,
                     const std::function<bool(const PlanStep&)>& counts) {
  int64_t sum = 0;
  for (const PlanStep& step : plan.steps) {
    sum += step.loop != nullptr ? exchanges_of(*step.loop->body, op, counts)
           : step.op->name == op && step.waits_for < 0 && counts(step) ? 1
                                                                       : 0;
  }
  return sum;
}

TEST(StepOfRanks, RunsExchangesUnderOtherWorkAsOverlapSays) {
  TrainConfig config = wide_config("none");
  config.parallel.data = 2;
  config.batch.micro = config.batch.global / 4;
  const TrainTask task = wide_task();
  for (const int64_t stage : {0, 1, 3}) {
    SCOPED_TRACE(fmt::format("stage {}", stage));
    config.parallel.zero.stage = stage;
    // Of gradients, which are scattered, and what is gathered: of parameters, and of gradients that are wanted whole.
    const auto overlapping = [&](bool gradients, bool parameters) {
      config.parallel.overlap = {.gradients = gradients, .parameters = parameters};
      const StepProgram step(task, config, config.batch.global / 4, make_context(config));
      const auto begins = [](const PlanStep& it) { return it.begins; };
      const auto may_begin = [](const PlanStep& it) { return !waits_in_place(it.attrs); };
      const Plan& plan = plan_of(*step.program());
      return std::pair(exchanges_of(plan, "reduce_scatter", begins),
                       exchanges_of(plan, "all_gather", may_begin));
    };
    const auto none = overlapping(false, false);
    const auto gradients = overlapping(true, false);
    const auto parameters = overlapping(false, true);
    const auto both = overlapping(true, true);
    EXPECT_EQ(none.first, 0);
    EXPECT_EQ(none.second, 1);  // squares for the norm
    EXPECT_GT(gradients.first, 0);
    EXPECT_GT(gradients.second, 1);
    EXPECT_EQ(parameters.first, 0);
    // Of the one that is in parts: updated, or for the forward pass and again for the backward pass.
    EXPECT_EQ(parameters.second - none.second, stage == 0 ? 0 : stage == 1 ? 1 : 2);
    EXPECT_EQ(both.first, gradients.first);
    EXPECT_EQ(both.second, gradients.second + parameters.second - none.second);
  }
}

TEST(StepOfRanks, ExchangesSmallGradientsInBundlesOfBucketMb) {
  TrainConfig config = wide_config("none");
  config.parallel.data = 2;
  config.batch.micro = config.batch.global / 2;
  config.parallel.zero.min_numel = 1 << 20;
  const TrainTask task = wide_task();
  const auto exchanges = [&](double bucket_mb) {
    config.parallel.bucket_mb = bucket_mb;
    const StepProgram step(task, config, config.batch.global / 2, make_context(config));
    return exchanges_of(plan_of(*step.program()), "reduce_scatter",
                        [](const PlanStep&) { return true; });
  };
  EXPECT_EQ(exchanges(64), 1);
  // The loss and what is small beside it, the large matrix by itself, and what follows it.
  EXPECT_EQ(exchanges(0.01), 3);
}

TEST_F(SharedRun, SumsInAnyOrderComeNear) {
  const std::string alone = run(plain(), 1, 0, "alone", 5);
  for (const int64_t stage : {0, 1, 2, 3}) {
    const std::string fast =
        run(plain(), 4, stage, fmt::format("fast_{}", stage), 5, ReductionOrder::kFast);
    const auto losses = [](const std::string& directory) {
      std::vector<double> out;
      for (const Json& row : read_metrics(real_files(), join_path(directory, kMetricsFile))) {
        if (row.contains("loss")) {
          out.push_back(row["loss"].get<double>());
        }
      }
      return out;
    };
    EXPECT_THAT(losses(fast), testing::Pointwise(testing::DoubleNear(1e-6), losses(alone)));
  }
}

TEST_F(SharedRun, StopsWhereTheFirstRankIsAskedTo) {
  const std::string alone = run(plain(), 1, 0, "alone");
  TrainConfig config = wide_config(folder_ / "stopped");
  config.schedule.type = ScheduleType::kConstant;
  run_ranks(4, [&](std::shared_ptr<Ranks> ranks) {
    const bool first = ranks->rank() == 0;
    std::atomic<bool> stop = false;
    const auto stop_there = [&](int64_t sample) { stop = first && sample >= 12 * 8; };
    SessionStart start;
    start.ranks = std::move(ranks);
    const SessionResult result =
        run_small(config, real_files(), small_data(stop_there), wide_task(), &stop, start);
    EXPECT_EQ(result.outcome, Outcome::kInterrupted);
    EXPECT_EQ(result.step, 13);
  });
  train_on(config, 2);
  expect_same_run(alone, config.run.directory(), kSteps);
}

// Whoever keeps parts never has all weights at once.
TEST_F(SharedRun, BeginsWithOneWeightAtATime) {
  const TrainTask task = wide_task(deep_model);
  int64_t whole = 0;
  int64_t largest = 0;
  for (const ParamSpec& spec : task.parameters) {
    whole += spec.type.bytes();
    largest = std::max(largest, spec.type.bytes());
  }
  ASSERT_LT(4 * largest, whole);
  TrainConfig config = wide_config(folder_ / "parts");
  config.parallel.data = 4;
  config.parallel.zero.stage = 3;
  config.parallel.zero.min_numel = 1;
  run_ranks(4, [&](std::shared_ptr<Ranks> ranks) {
    const Context context = make_context(config, std::move(ranks));
    const ContextScope scope(context);
    const StepProgram step(task, config, 1, context);
    const int64_t before = context.allocator->stats().peak_bytes;
    const TrainState state = step.first_state(
        [&](const ParamSpec& spec) { return init_params(std::span(&spec, 1), 1).tensor(0); });
    int64_t kept = 0;
    for (const Tensor& leaf : flatten_tree(state)) {
      kept += leaf.type().bytes();
    }
    // One weight, padded, and what it is drawn from.
    EXPECT_LT(context.allocator->stats().peak_bytes - before, kept + 4 * largest);
    const TrainState from_all = step.first_state(init_params(task.parameters, 1));
    for (size_t i = 0; i < state.params.size(); ++i) {
      EXPECT_EQ(to_doubles(from_all.params.tensor(i)), to_doubles(state.params.tensor(i)));
    }
  });
}

TEST(BatchOfRanks, ThatCannotBeSharedIsRefusedWithTheNearestChoices) {
  TrainConfig config;
  config.batch.global = 12;
  const YamlNode tree = parse_yaml("batch: {global: 12, micro: 4}", "my.yaml");
  EXPECT_EQ(error_of([&] { check_batch(config, 3, tree); }), "no error");
  EXPECT_EQ(error_of([&] { check_batch(config, 5, tree); }),
            "my.yaml:1: batch.global: 12 samples in micro-batches of 1 cannot be shared by 5 ranks "
            "(parallel.data); say 10 or 15, or take 4 ranks");
  config.batch.micro = 4;
  EXPECT_EQ(error_of([&] { check_batch(config, 2, tree); }),
            "my.yaml:1: batch.micro: 12 samples in micro-batches of 4 cannot be shared by 2 ranks "
            "(parallel.data); possible: 6, 3, 2, 1; or a batch.global of 8 or 16");
}

}  // namespace
}  // namespace mstrain
