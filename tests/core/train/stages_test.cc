// A run whose layers many ranks share is the run of one, bit for bit: its checkpoints, and what it logs.
#include "core/train/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exec/execute.h"
#include "core/nn/model_layer.h"
#include "core/ops/shape.h"
#include "core/ops/stage.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

constexpr int64_t kStagedSteps = 6;
constexpr int64_t kLayers = 8;
constexpr int64_t kWidth = 48;  // so that a layer is shared unevenly by two ranks along data

// Marked layers with dropout between a table and a head that is the same table.
TrainTask layered_task() {
  const auto model = [](const Params& p, const Tensor& x) {
    const Tensor table = (p / "embed").get("weight", {4, kWidth}, normal_init(0.5));
    Tensor h = matmul(x, table);
    for (int64_t i = 0; i < kLayers; ++i) {
      const auto layer = [&](const Tensor& in) {
        return in + dropout(p / i / "drop", tanh(linear(p / i, in, {kWidth})), 0.1);
      };
      h = model_layer(i, Recompute::kNone, layer, h);
    }
    return sum(matmul(stage_point(h, kLayers), transpose(table)), {1}, true);
  };
  TrainTask task = regression_task(model);
  task.sums = [model](const Params& p, std::span<const Tensor> batch) {
    const Tensor errors = square(model(p, batch[0]) - batch[1]);
    const Tensor count = full({}, static_cast<double>(errors.elements()));
    return TaskSums{{sum(cast(errors, Dtype::kF32)), count},
                    {{sum(cast(errors < 0.5, Dtype::kI32)), count},
                     {sum(cast(sqrt(errors), Dtype::kF32)), count}}};
  };
  task.metrics = {kEvalAccuracy, kEvalMargin};
  task.measures_steps = true;
  return task;
}

struct Dealing {
  int64_t pipeline = 1;
  const char* schedule = "1f1b";
  int64_t virtual_pipeline = 1;
  int64_t data = 1;
  int64_t stage = 0;  // of ZeRO
  std::vector<int64_t> stage_layout = {};

  std::string name() const {
    return fmt::format("{}_{}x{}_data{}_zero{}", schedule, pipeline, virtual_pipeline, data, stage);
  }
};

class PipelinedRun : public testing::Test {
 protected:
  using Change = std::function<void(TrainConfig&)>;

  TrainConfig config_of(const Dealing& layout, const std::string& name) const {
    TrainConfig config = small_config(folder_ / name);
    config.batch.micro = 1;
    config.schedule.total_steps = kStagedSteps;
    config.schedule.type = ScheduleType::kConstant;
    config.checkpoint.interval = 2;
    config.eval.interval = 2;
    config.log.layers = 2;
    config.optimizer.clip_grad = 0.05;
    config.optimizer.weight_decay = 0.1;
    config.parallel.pipeline = layout.pipeline;
    config.parallel.schedule = layout.schedule;
    config.parallel.virtual_pipeline = layout.virtual_pipeline;
    config.parallel.stage_layout = layout.stage_layout;
    config.parallel.data = layout.data;
    config.parallel.zero = {layout.stage, 0};
    return config;
  }

  // The run, in a directory of its own.
  std::string run(const Dealing& layout, const std::string& name, const Change& change = {},
                  int64_t steps = kStagedSteps) const {
    TrainConfig config = config_of(layout, name);
    config.schedule.total_steps = steps;
    if (change) {
      change(config);
    }
    const Mesh mesh = mesh_of(config.parallel, layout.pipeline * layout.data);
    if (mesh.ranks() == 1) {
      run_small(config, real_files(), small_data(), layered_task());
    } else {
      run_ranks(mesh, [&](std::shared_ptr<Ranks> ranks) {
        SessionStart start;
        start.ranks = std::move(ranks);
        run_small(config, real_files(), small_data(), layered_task(), nullptr, start);
      });
    }
    return config.run.directory();
  }

  TemporaryFolder folder_;
};

TEST_F(PipelinedRun, HasTheBitsOfOneRankByEverySchedule) {
  const std::string alone = run({}, "alone");
  const std::vector<Dealing> layouts{{2, "gpipe"},
                                     {4, "gpipe"},
                                     {2, "1f1b"},
                                     {4, "1f1b"},
                                     {2, "interleaved", 2},
                                     {2, "interleaved", 4},
                                     {2, "zb_h1"},
                                     {4, "interleaved", 2},
                                     {4, "zb_h1"},
                                     {2, "zbv"},
                                     {4, "zbv"},
                                     {2, "1f1b", 1, 1, 0, {3, 5}}};
  for (const Dealing& layout : layouts) {
    SCOPED_TRACE(layout.name());
    expect_same_run(alone, run(layout, layout.name() + (layout.stage_layout.empty() ? "" : "_own")),
                    kStagedSteps);
  }
}

// As it comes, and evaluations where its parts lie, which is as no schedule with a name has them.
TEST_F(PipelinedRun, FollowsAScheduleFromAFile) {
  Schedule own = gpipe_schedule({0, 1, 1, 0}, 8);
  own.name = "own";
  const std::string file = folder_ / "own.txt";
  write_file_atomic(real_files(), file, to_text(own));
  const std::string alone = run({}, "alone");
  const Dealing layout{2, file.c_str()};
  expect_same_run(alone, run(layout, "micro_of_one"), kStagedSteps);
  const Change any = [](TrainConfig& c) { c.batch.micro = {}; };
  expect_same_run(alone, run(layout, "micro_auto", any), kStagedSteps);

  TrainConfig config = config_of({2, file.c_str(), 1, 2}, "none");
  EXPECT_THAT(error_of([&] { check_batch(config, 2, resolved(config)); }),
              testing::HasSubstr("own.txt is for 8 micro-batches, but a step has 4; say "
                                 "batch.global=16"));
  config.batch.global = 32;
  EXPECT_THAT(error_of([&] { check_batch(config, 2, resolved(config)); }),
              testing::HasSubstr("but a step has 16; say batch.micro=2 or batch.global=16"));
  config.parallel.pipeline = 4;
  EXPECT_THAT(error_of([&] { check_runs(config.parallel, resolved(config), 8); }),
              testing::HasSubstr("own.txt is for 2 ranks; say parallel.pipeline=2"));
  std::iter_swap(own.actions.begin(), own.actions.begin() + 1);
  own.actions.erase(own.actions.begin());
  write_file_atomic(real_files(), file, to_text(own));
  config.parallel.pipeline = 2;
  EXPECT_THAT(error_of([&] { check_runs(config.parallel, resolved(config), 4); }),
              testing::HasSubstr("schedule own: "));
}

TEST_F(PipelinedRun, HasTheBitsOfOneRankWithDataAndOptimizerInParts) {
  const std::string alone = run({}, "alone");
  for (const Dealing& layout :
       {Dealing{2, "1f1b", 1, 2, 0}, Dealing{2, "1f1b", 1, 2, 1}, Dealing{2, "zb_h1", 1, 2, 2},
        Dealing{2, "interleaved", 2, 4, 1}, Dealing{2, "1f1b", 1, 2, 3}, Dealing{2, "zbv", 1, 2, 3},
        Dealing{2, "interleaved", 2, 4, 3}}) {
    SCOPED_TRACE(layout.name());
    expect_same_run(alone, run(layout, layout.name()), kStagedSteps);
  }
  const Change groups = [](TrainConfig& c) { c.parallel.zero.group = 2; };
  for (const int64_t stage : {1, 3}) {
    expect_same_run(alone, run({2, "zb_h1", 1, 4, stage}, fmt::format("groups_{}", stage), groups),
                    kStagedSteps);
  }
}

TEST_F(PipelinedRun, ExchangesAlongDataUnderOtherWorkAsOverlapSays) {
  const Dealing layout{2, "1f1b", 1, 2, 3};
  const Change change = [](TrainConfig& c) {
    c.parallel.overlap = {.gradients = false, .parameters = false};
    c.parallel.bucket_mb = 1e-4;
  };
  expect_same_run(run({}, "alone"), run(layout, "in_place", change), kStagedSteps);
  const TrainTask task = layered_task();
  const auto begun = [&](const Change& with, std::string_view op) {
    TrainConfig config = config_of(layout, "none");
    with(config);
    const StepProgram step(task, config, 1, make_context(config), 1);
    const std::string text =
        step.text([](const Program& program) { return describe(plan_of(program)); });
    return text.find(fmt::format(" begin {} ", op)) != std::string::npos;
  };
  for (const char* op : {"reduce_scatter", "all_gather"}) {
    EXPECT_TRUE(begun([](TrainConfig&) {}, op)) << op;
  }
  EXPECT_FALSE(begun(change, "reduce_scatter"));
  const Change parameters = [](TrainConfig& c) { c.parallel.overlap.gradients = false; };
  EXPECT_FALSE(begun(parameters, "reduce_scatter"));
  EXPECT_TRUE(begun(parameters, "all_gather"));
}

TEST_F(PipelinedRun, HasTheBitsOfOneRankInEveryPrecision) {
  const std::pair<const char*, Change> cases[] = {
      {"bf16_with_master", [](TrainConfig& c) { c.precision.params = FloatType::kBf16; }},
      {"moments_of_8_bits",
       [](TrainConfig& c) {
         c.precision.params = FloatType::kBf16;
         c.precision.grads = FloatType::kBf16;
         c.precision.moments = MomentType::kInt8;
       }},
      {"fp16_with_loss_scale",
       [](TrainConfig& c) {
         c.precision.params = FloatType::kFp16;
         c.precision.loss_scale_init = 1200;
         c.precision.loss_scale_interval = 3;
       }},
      {"lamb", [](TrainConfig& c) { c.optimizer.type = OptimizerType::kLamb; }},
      {"muon", [](TrainConfig& c) {
         c.optimizer.type = OptimizerType::kMuon;
         c.optimizer.momentum = 0.95;
       }}};
  for (const auto& [name, change] : cases) {
    const std::string alone = run({}, std::string(name) + "_alone", change);
    for (const Dealing& layout :
         {Dealing{4, "zbv"}, Dealing{2, "1f1b", 1, 2, 1}, Dealing{2, "zb_h1", 1, 2, 3}}) {
      SCOPED_TRACE(fmt::format("{}, {}", name, layout.name()));
      expect_same_run(alone, run(layout, fmt::format("{}_{}", name, layout.name()), change),
                      kStagedSteps);
    }
  }
}

TEST_F(PipelinedRun, GoesOnUnderAnotherLayoutWithTheSameBits) {
  const std::string alone = run({}, "alone");
  std::string moves;
  int64_t steps = 0;
  for (const Dealing& layout : {Dealing{4, "zbv"}, Dealing{2, "1f1b", 1, 2, 3}, Dealing{}}) {
    moves = run(layout, "moves", {}, steps += 2);
  }
  expect_same_run(alone, moves, kStagedSteps);
}

TEST_F(PipelinedRun, SumsInAnyOrderComeNear) {
  const auto last_loss = [](const std::string& directory) {
    const auto rows = read_metrics(real_files(), join_path(directory, kMetricsFile));
    return rows.back()["eval_loss"].get<double>();
  };
  const std::string alone = run({}, "alone");
  for (const int64_t stage : {0, 2}) {
    const std::string fast =
        run({2, "1f1b", 1, 2, stage}, fmt::format("fast{}", stage),
            [](TrainConfig& c) { c.parallel.reduction = ReductionOrder::kFast; });
    EXPECT_NEAR(last_loss(fast), last_loss(alone), 1e-6 * last_loss(alone));
  }
}

TEST_F(PipelinedRun, IsPlannedForEveryStage) {
  const auto plan_of_run = [&](const Dealing& layout) {
    TrainConfig config = config_of(layout, "planned");
    config.checkpoint.async = false;
    return plan_run(layered_task(), config, make_context(config), int64_t{1} << 40, false).plan;
  };
  const RunPlan alone = plan_of_run({});
  EXPECT_TRUE(alone.stage_bytes.empty());
  const RunPlan plan = plan_of_run({4, "1f1b"});
  ASSERT_EQ(plan.stage_bytes.size(), 4);
  EXPECT_EQ(plan.total(), *std::max_element(plan.stage_bytes.begin(), plan.stage_bytes.end()));
  EXPECT_LT(plan.parameter_bytes + plan.optimizer_bytes,
            (alone.parameter_bytes + alone.optimizer_bytes) / 3);
  EXPECT_NEAR(plan.cost.flops, alone.cost.flops, 0.1 * alone.cost.flops);
}

// Each stage with its own weights, as steps keep them; what it finds are the bits of one rank.
TEST_F(PipelinedRun, EvaluatesByStages) {
  const TrainTask task = layered_task();
  const std::atomic<bool> never = false;
  const auto evaluated = [&](TrainConfig config, const std::shared_ptr<Ranks>& ranks,
                             size_t& weights) {
    config.log.layers = TrainConfig().log.layers;  // which looks at all weights
    const Context context = make_context(config, ranks);
    const ContextScope scope(context);
    const PlannedRun planned = plan_run(task, config, context, int64_t{1} << 40, true);
    EXPECT_EQ(planned.plan.whole_bytes, 0);
    const StepProgram& step = *planned.step;
    const Params own = step.first_state(init_params(step.stage_parameters(), 1)).params;
    weights = own.size();
    const auto result = evaluate(*planned.loss, own, task, small_data(), config, 1, never, nullptr);
    std::vector<double> values;
    for (const Metric& metric : result->metrics) {
      values.push_back(metric.value);
    }
    return values;
  };
  size_t all = 0;
  const std::vector<double> alone = evaluated(config_of({}, "alone"), nullptr, all);
  for (const Dealing& layout :
       {Dealing{2, "gpipe"}, Dealing{4, "zbv"}, Dealing{2, "1f1b", 1, 2, 3}}) {
    SCOPED_TRACE(layout.name());
    const TrainConfig config = config_of(layout, "stages");
    run_ranks(mesh_of(config.parallel, layout.pipeline * layout.data),
              [&](const std::shared_ptr<Ranks>& ranks) {
                size_t weights = 0;
                EXPECT_EQ(evaluated(config, ranks, weights), alone);
                EXPECT_LT(weights, all * 3 / 4);
              });
  }
}

TEST_F(PipelinedRun, TakesTheBytesThatThePlanSays) {
  for (const Dealing& layout : {Dealing{2, "gpipe"}, Dealing{4, "zbv"}, Dealing{2, "1f1b", 1, 2, 1},
                                Dealing{2, "1f1b", 1, 2, 3}}) {
    SCOPED_TRACE(layout.name());
    const TrainConfig config = config_of(layout, "planned");
    const TrainTask task = layered_task();
    const Mesh mesh = mesh_of(config.parallel, layout.pipeline * layout.data);
    run_ranks(mesh, [&](const std::shared_ptr<Ranks>& ranks) {
      const Context context = make_context(config, ranks);
      const ContextScope scope(context);
      const PlannedRun planned = plan_run(task, config, context, int64_t{1} << 40, false);
      const StepProgram& step = *planned.step;
      EXPECT_EQ(context.allocator->stats().peak_bytes, 0);
      TrainState state = step.first_state(init_params(step.stage_parameters(), 1));
      for (int64_t i = 0; i < 2; ++i) {
        const BatchPart part(8, 1, layout.data, ranks->coordinate(kDataAxis));
        Tensors batch = IndexedBatches(1, part, 0, nullptr).next();
        state =
            step.run(std::move(state), std::move(batch), {.lr = 1e-3, .seed = 1, .step = i}).state;
      }
      const int64_t peak = context.allocator->stats().peak_bytes;
      const int64_t bytes =
          planned.plan.step.inputs + planned.plan.step.outputs + planned.plan.step.arena;
      // The plan has peers as late as they may be. Blocks begin at multiples of 64.
      EXPECT_GE(peak, bytes - bytes / 10);
      EXPECT_LE(peak, bytes + bytes / 50);
    });
  }
}

// A table that first and last layers read is read by two stages, of which one updates it.
TEST_F(PipelinedRun, StagesKeepWhatTheirLayersReadAlone) {
  const TrainTask task = layered_task();
  const TrainConfig config = config_of({4, "1f1b"}, "kept");
  const Context context = make_context(config);
  std::vector<std::vector<std::string>> held(4);
  std::vector<int> updates(task.parameters.size(), 0);
  for (int64_t stage = 0; stage < 4; ++stage) {
    const StepProgram program(task, config, 1, context, stage);
    for (const ParamSpec& spec : program.stage_parameters()) {
      held[static_cast<size_t>(stage)].push_back(spec.name);
    }
    for (size_t i = 0; i < task.parameters.size(); ++i) {
      updates[i] += program.updates(i) ? 1 : 0;
    }
  }
  EXPECT_THAT(updates, testing::Each(1));
  using testing::UnorderedElementsAre;
  EXPECT_THAT(held[0],
              UnorderedElementsAre("embed.weight", "0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_THAT(held[2], UnorderedElementsAre("4.weight", "4.bias", "5.weight", "5.bias"));
  EXPECT_THAT(held[3],
              UnorderedElementsAre("embed.weight", "6.weight", "6.bias", "7.weight", "7.bias"));
}

TEST_F(PipelinedRun, ThatIsImpossibleIsRefusedWithWhatWouldDo) {
  const auto refusal = [&](const Dealing& layout, const TrainTask& task = layered_task(),
                           const Change& change = {}) {
    TrainConfig config = config_of(layout, "refused");
    if (change) {
      change(config);
    }
    return error_of([&] {
      check_batch(config, layout.data, YamlNode());
      StepProgram(task, config, *config.batch.micro.value, make_context(config));
    });
  };
  EXPECT_EQ(refusal({3}),
            "parallel.pipeline: 8 layers do not divide into 3 parts; the nearest that do: 2 or 4 "
            "or 1; or say which has how many, as parallel.stage_layout=[3,3,2]");
  EXPECT_EQ(refusal({2, "1f1b", 1, 1, 0, {8, 1}}),
            "parallel.stage_layout: 9 layers in 2 parts, but the model has 8 and the pipeline 2; "
            "for example [4,4]");
  EXPECT_EQ(refusal({2, "1f1b", 1, 1, 0, {8, 0}}),
            "parallel.stage_layout: a part of [8,0] has no layer; for example [4,4]");
  EXPECT_EQ(refusal({4, "1f1b", 1, 4}),
            "parallel.pipeline: 4 ranks need as many micro-batches, but a step has 2 (8 samples "
            "over data 4, in micro-batches of 1); say batch.global=16");
  EXPECT_EQ(refusal({4}, layered_task(), [](TrainConfig& c) { c.batch.micro = 4; }),
            "parallel.pipeline: 4 ranks need as many micro-batches, but a step has 2 (8 samples "
            "over data 1, in micro-batches of 4); say batch.micro=2 or batch.global=16");
  EXPECT_EQ(
      refusal({2}, layered_task(), [](TrainConfig& c) { c.run.execution = Execution::kEager; }),
      "run.execution: eager has no programs that a pipeline could be made of; say graph");
  EXPECT_EQ(refusal({2}, small_task()),
            "the model marks no layers, so that it cannot be dealt to stages");
}

}  // namespace
}  // namespace mstrain
