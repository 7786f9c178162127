// Runs of a small task in every mode of the section `precision`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/io/safetensors.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

struct Mode {
  std::string name;
  PrecisionConfig precision;
  double bytes;       // per parameter, apart from scales of blocks
  double loss_error;  // of the evaluation after 200 steps, in parts of that of fp32

  friend std::ostream& operator<<(std::ostream& out, const Mode& mode) { return out << mode.name; }
};

PrecisionConfig precision_of(FloatType params, FloatType grads, MasterType master,
                             MomentType moments) {
  PrecisionConfig config;
  config.params = params;
  config.grads = grads;
  config.master = master;
  config.moments = moments;
  return config;
}

// Bytes: parameter + gradient + master + two moments. The gradients of one micro-batch are in the type of parameters.
std::vector<Mode> modes() {
  constexpr auto fp32 = FloatType::kFp32, bf16 = FloatType::kBf16, fp16 = FloatType::kFp16;
  constexpr auto none = MasterType::kNone, master = MasterType::kFp32;
  constexpr auto m32 = MomentType::kFp32, m16 = MomentType::kBf16, m8 = MomentType::kInt8;
  return {{"fp32", precision_of(fp32, fp32, master, m32), 16, 0},
          {"fp32_moments_int8", precision_of(fp32, fp32, master, m8), 10, 0.03},
          {"bf16_grads_fp32", precision_of(bf16, fp32, master, m32), 16, 0.03},
          {"bf16_moments_bf16", precision_of(bf16, bf16, master, m16), 12, 0.03},
          {"bf16_moments_int8", precision_of(bf16, bf16, master, m8), 10, 0.03},
          {"bf16_alone_moments_fp32", precision_of(bf16, bf16, none, m32), 12, 0.05},
          {"bf16_alone_moments_bf16", precision_of(bf16, bf16, none, m16), 8, 0.05},
          {"bf16_alone_moments_int8", precision_of(bf16, bf16, none, m8), 6, 0.05},
          {"fp16", precision_of(fp16, fp32, master, m32), 16, 0.03},
          {"fp16_grads_fp16", precision_of(fp16, fp16, master, m32), 16, 0.03}};
}

class Precision : public testing::TestWithParam<Mode> {
 protected:
  Precision() {
    previous_ = set_log_sink([](LogLevel, std::string_view) {});
  }
  ~Precision() override { set_log_sink(previous_); }

  TrainConfig config(const std::string& name) const {
    TrainConfig config = small_config(folder_ / name);
    config.precision = GetParam().precision;
    return config;
  }

  TemporaryFolder folder_;
  LogSink previous_;
};

double final_loss(TrainConfig config) {
  config.schedule.total_steps = 200;
  config.eval.interval = 200;
  config.checkpoint.interval = 200;
  return run_small(config, real_files(), small_data(), small_task(0)).evaluation->loss();
}

TEST_P(Precision, ReachesTheLossOfFp32) {
  TrainConfig wide = config("fp32");
  wide.precision = {};
  const double expected = final_loss(wide);
  EXPECT_NEAR(final_loss(config("mode")), expected, GetParam().loss_error * expected);
  EXPECT_LT(expected, 0.2);  // the targets' variance is 0.6
}

TEST_P(Precision, GoingOnEqualsNeverHavingStopped) {
  for (const Execution execution : {Execution::kGraph, Execution::kEager}) {
    const auto in_mode = [&](const char* name) {
      TrainConfig run = config(fmt::format("{}_{}", name, static_cast<int>(execution)));
      run.run.execution = execution;
      run.batch.micro = 4;
      return run;
    };
    const TrainConfig straight = in_mode("straight");
    const TrainConfig stopped = in_mode("stopped");
    run_small(straight);
    std::atomic<bool> stop = false;
    const auto stop_there = [&](int64_t sample) { stop = sample >= 10 * 8; };
    EXPECT_EQ(run_small(stopped, real_files(), small_data(stop_there), small_task(), &stop).outcome,
              Outcome::kInterrupted);
    EXPECT_EQ(run_small(stopped).outcome, Outcome::kFinished);
    expect_same_run(straight.run.directory(), stopped.run.directory(), 20);
  }
}

TEST_P(Precision, EagerIsGraphAtO0BitForBit) {
  TrainConfig eager = config("eager");
  TrainConfig graph = config("graph");
  eager.run.execution = Execution::kEager;
  graph.fusion.level = FusionLevel::kO0;
  run_small(eager);
  run_small(graph);
  expect_same_run(eager.run.directory(), graph.run.directory(), 20);
}

TEST_P(Precision, FusedStepsAgreeWithUnfusedOnes) {
  TrainConfig plain = config("plain");
  TrainConfig fused = config("fused");
  plain.fusion.level = FusionLevel::kO0;
  const double expected = run_small(plain).evaluation->loss();
  EXPECT_NEAR(run_small(fused).evaluation->loss(), expected, 0.02 * expected + 1e-6);
}

TEST_P(Precision, TheCheckpointHoldsTheWeightsInTheirType) {
  const TrainConfig run = config("run");
  run_small(run);
  const std::string folder =
      join_path(join_path(run.run.directory(), "checkpoints"), checkpoint_name(20));
  const SafetensorsFile model(real_files(), join_path(folder, kModelFile));
  for (const TensorEntry& entry : model.entries()) {
    EXPECT_EQ(entry.dtype, GetParam().precision.param_dtype()) << entry.name;
  }
}

// What the plan says of a step, and what the allocator gives out for it.
TEST_P(Precision, TakesTheBytesThatThePlanSays) {
  TrainConfig run = config("unused");
  run.batch.micro = 8;
  const TrainTask task = small_task();
  const Context context = make_context(run);
  const ContextScope scope(context);
  const PlannedRun planned = plan_run(task, run, context, int64_t{1} << 40, false);
  const RunPlan& plan = planned.plan;
  EXPECT_EQ(context.allocator->stats().peak_bytes, 0);
  const auto per_parameter = static_cast<double>(plan.parameter_bytes + plan.gradient_bytes +
                                                 plan.optimizer_bytes - plan.number_bytes) /
                             static_cast<double>(plan.parameters);
  // Two scales of blocks, which are shorter than 256 here, for each of four tensors.
  const bool blocks = GetParam().precision.moments == MomentType::kInt8;
  const double besides = (blocks ? 2 * 4 * 4 : 0) / static_cast<double>(plan.parameters);
  EXPECT_DOUBLE_EQ(per_parameter, GetParam().bytes + besides);
  EXPECT_THAT(describe(plan, run, int64_t{1} << 40),
              HasSubstr(fmt::format("per parameter  {:.2f} bytes: ", GetParam().bytes + besides)));

  TrainState state = planned.step->first_state(init_params(task.parameters, 1));
  int64_t held = 0;
  int64_t tensors = 0;
  for (const Tensor& leaf : flatten_tree(state)) {
    held += leaf.type().bytes();
    ++tensors;
  }
  EXPECT_EQ(held, plan.parameter_bytes + plan.optimizer_bytes);
  Tensors batch = IndexedBatches(1, 8, 0, nullptr).next();
  const int64_t before = context.allocator->stats().peak_bytes;
  const StepResult result =
      planned.step->run(std::move(state), std::move(batch), {.lr = 1e-3, .seed = 1, .step = 0});
  const int64_t planned_bytes = plan.step.inputs + plan.step.outputs + plan.step.arena;
  const int64_t peak = context.allocator->stats().peak_bytes;
  EXPECT_GT(peak, before);
  // Blocks begin at multiples of 64.
  EXPECT_GE(peak, planned_bytes);
  EXPECT_LE(peak, planned_bytes + 64 * (tensors + 16));
}

INSTANTIATE_TEST_SUITE_P(Modes, Precision, testing::ValuesIn(modes()),
                         [](const auto& info) { return info.param.name; });

class LossScaling : public testing::Test {
 protected:
  LossScaling() {
    previous_ = set_log_sink([this](LogLevel, std::string_view line) {
      if (line.find("overflow") != std::string_view::npos) {
        overflows_.emplace_back(line);
      }
    });
  }
  ~LossScaling() override { set_log_sink(previous_); }

  TrainConfig config(const std::string& name) const {
    TrainConfig config = small_config(folder_ / name);
    config.precision.params = FloatType::kFp16;
    config.log.interval = 1;
    return config;
  }

  TemporaryFolder folder_;
  std::vector<std::string> overflows_;
  LogSink previous_;
};

// Begins far too high: gradients overflow until the scale has come down.
TEST_F(LossScaling, OverflowsSkipStepsAreCountedAndLoggedAndGoOnAlike) {
  TrainConfig straight = config("straight");
  straight.precision.loss_scale_init = 0x1p26;
  straight.precision.loss_scale_interval = 6;
  run_small(straight);
  const std::vector<Json> rows =
      read_metrics(real_files(), join_path(straight.run.directory(), kMetricsFile));
  double scale = 0x1p26;
  int64_t skipped = 0;
  int64_t taken = 0;
  for (const Json& row : rows) {
    if (row.contains("eval_loss")) {
      continue;
    }
    EXPECT_EQ(row["loss_scale"].get<double>(), scale) << row.dump();
    const bool overflow = row["skipped_steps"].get<int64_t>() > skipped;
    taken = overflow ? 0 : taken + 1;
    skipped += overflow ? 1 : 0;
    scale = overflow ? scale / 2 : taken == 6 ? scale * 2 : scale;
    taken = taken == 6 ? 0 : taken;
    EXPECT_EQ(row["skipped_steps"].get<int64_t>(), skipped);
    EXPECT_NE(overflow, row["grad_norm"].is_number()) << row.dump();
  }
  EXPECT_GE(skipped, 3);
  EXPECT_LT(skipped, 16);
  EXPECT_EQ(static_cast<int64_t>(overflows_.size()), skipped);
  EXPECT_THAT(overflows_.at(0), HasSubstr("step 1: overflow at a loss scale of 67108864"));

  for (const int64_t stop_at : {1, 5, 12}) {
    TrainConfig stopped = straight;
    stopped.run.output_dir = folder_ / fmt::format("stopped_{}", stop_at);
    std::atomic<bool> stop = false;
    const auto stop_there = [&](int64_t sample) { stop = sample >= stop_at * 8; };
    run_small(stopped, real_files(), small_data(stop_there), small_task(), &stop);
    run_small(stopped);
    expect_same_run(straight.run.directory(), stopped.run.directory(), 20);
  }
}

TEST_F(LossScaling, TheScaleChangesNoResultThatFits) {
  TrainConfig one = config("one");
  one.precision.params = FloatType::kFp32;
  TrainConfig scaled = one;
  scaled.run.output_dir = folder_ / "scaled";
  scaled.precision.loss_scale =
      NoneOr<OrWord<double, DynamicWord>>(OrWord<double, DynamicWord>(1024.0));
  run_small(one);
  run_small(scaled);
  EXPECT_EQ(checkpoint_file(one.run.directory(), 20, "model.safetensors"),
            checkpoint_file(scaled.run.directory(), 20, "model.safetensors"))
      << "powers of two go in and out without rounding";
}

TEST_F(LossScaling, AnOverflowAtTheLeastScaleEndsTheRun) {
  TrainConfig run = config("run");
  run.precision.loss_scale_init = 0x1p40;
  run.precision.loss_scale_min = 0x1p38;
  try {
    run_small(run);
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 3"));
  }
  EXPECT_EQ(overflows_.size(), 2U);
}

TEST_F(LossScaling, ARunThatMadeNoStepEndsWithAnErrorAndItsCheckpoint) {
  TrainConfig run = config("run");
  run.precision.loss_scale_init = 1e30;
  const auto message = [&] {
    try {
      run_small(run);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("the run finished");
  };
  EXPECT_THAT(message(),
              AllOf(HasSubstr("none of 20 steps changed a weight"), HasSubstr("loss_scale_init")));
  EXPECT_EQ(overflows_.size(), 20U);
  EXPECT_FALSE(checkpoint_file(run.run.directory(), 20, "model.safetensors").empty());
  run.schedule.total_steps = 120;  // it goes on to where gradients are finite
  EXPECT_EQ(message(), "the run finished");
}

TEST_F(LossScaling, AFixedScaleThatOverflowsIsNamed) {
  TrainConfig run = config("run");
  run.precision.loss_scale = NoneOr<OrWord<double, DynamicWord>>(OrWord<double, DynamicWord>(1e30));
  try {
    run_small(run);
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step 1"), HasSubstr("precision.loss_scale=dynamic"),
                                    testing::Not(HasSubstr("optimizer.lr"))));
  }
}

}  // namespace
}  // namespace mstrain
