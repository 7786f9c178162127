// Weights that training leaves as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/log.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The small task with the layer "in" frozen, kept in `dtype`.
TrainTask half_frozen(Dtype dtype = Dtype::kF32) {
  TrainTask task = small_task(0);
  const auto trained =
      std::stable_partition(task.parameters.begin(), task.parameters.end(),
                            [](const ParamSpec& spec) { return spec.name.starts_with("out."); });
  task.frozen.assign(trained, task.parameters.end());
  task.parameters.erase(trained, task.parameters.end());
  task.stored_shapes.clear();
  for (const ParamSpec& spec : task.parameters) {
    task.stored_shapes.push_back(spec.type.shape);
  }
  task.frozen_weights = [specs = task.frozen, dtype] {
    return cast_params(init_params(specs, 7), dtype);
  };
  for (ParamSpec& spec : task.frozen) {
    spec.type.dtype = dtype;
  }
  task.stored_file = "part.safetensors";
  task.stored_names = [](const std::string& name) { return std::vector{"part." + name}; };
  return task;
}

class Frozen : public testing::Test {
 protected:
  Frozen() {
    previous_ = set_log_sink([](LogLevel, std::string_view) {});
  }
  ~Frozen() override { set_log_sink(previous_); }

  TemporaryFolder folder_;
  LogSink previous_;
};

std::vector<double> values_of(const Params& params, const char* name) {
  return to_doubles(*params.find(name));
}

TEST_F(Frozen, WeightsStayAndHaveNoState) {
  for (const Execution execution : {Execution::kGraph, Execution::kEager}) {
    const bool eager = execution == Execution::kEager;
    TrainConfig config = small_config(folder_ / (eager ? "eager" : "graph"));
    config.run.execution = execution;
    const TrainTask task = half_frozen();
    const SessionResult result = run_small(config, real_files(), small_data(), task);
    ASSERT_EQ(result.params.size(), 4);
    const Params before = task.frozen_weights();
    for (const char* name : {"in.weight", "in.bias"}) {
      EXPECT_EQ(values_of(result.params, name), values_of(before, name)) << name;
    }
    const std::string checkpoint =
        join_path(join_path(config.run.directory(), "checkpoints"), checkpoint_name(20));
    EXPECT_FALSE(real_files().exists(join_path(checkpoint, kModelFile)));
    const SafetensorsFile stored(real_files(), join_path(checkpoint, "part.safetensors"));
    EXPECT_EQ(stored.entries().size(), 2);
    EXPECT_TRUE(stored.contains("part.out.weight"));
    const SafetensorsFile optimizer(real_files(), join_path(checkpoint, kOptimizerFile));
    for (const TensorEntry& entry : optimizer.entries()) {
      EXPECT_THAT(entry.name, testing::StartsWith("out."));
    }
  }
}

// What is trained does not depend on whether the rest could be: its gradient is the same.
TEST_F(Frozen, TheRestIsTrainedAsEver) {
  const auto one_step = [&](const TrainTask& task, const char* name) {
    TrainConfig config = small_config(folder_ / name);
    config.schedule.total_steps = 1;
    config.schedule.warmup_steps = 0;
    config.optimizer.clip_grad = std::nullopt;
    config.eval.interval = {};
    return run_small(config, real_files(), small_data(), task).params;
  };
  TrainTask part = half_frozen();
  TrainTask whole = small_task(0);
  const Params begin = init_params(whole.parameters, 7);
  whole.initial = [begin] { return begin; };
  part.initial = [begin, specs = part.parameters] {
    Params out;
    for (const ParamSpec& spec : specs) {
      out.set(spec.name, *begin.find(spec.name));
    }
    return out;
  };
  const Params of_part = one_step(part, "part");
  const Params of_whole = one_step(whole, "whole");
  for (const char* name : {"out.weight", "out.bias"}) {
    const std::vector<double> expected = values_of(of_whole, name);
    const std::vector<double> found = values_of(of_part, name);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_NE(found, values_of(begin, name));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 1e-6) << name;
    }
  }
}

TEST_F(Frozen, RunsThatStopGoOnInTheSameBits) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    const TrainTask task = half_frozen(dtype);
    const auto config_of = [&](const std::string& name) {
      TrainConfig config = small_config(folder_ / (name + std::string(name_of(dtype))));
      config.batch.micro = 2;
      config.precision.params = dtype == Dtype::kF32 ? FloatType::kFp32 : FloatType::kBf16;
      return config;
    };
    const TrainConfig straight = config_of("straight");
    run_small(straight, real_files(), small_data(), task);
    const TrainConfig stopped = config_of("stopped");
    std::atomic<bool> stop = false;
    const TrainData data = small_data([&](int64_t first) { stop = first == 8 * 11; });
    EXPECT_EQ(run_small(stopped, real_files(), data, task, &stop).outcome, Outcome::kInterrupted);
    EXPECT_EQ(run_small(stopped, real_files(), small_data(), task).outcome, Outcome::kFinished);
    for (const char* file : {"part.safetensors", "optimizer.safetensors"}) {
      EXPECT_EQ(checkpoint_file(straight.run.directory(), 20, file),
                checkpoint_file(stopped.run.directory(), 20, file))
          << file;
    }
    EXPECT_EQ(timeless_metrics(straight.run.directory()),
              timeless_metrics(stopped.run.directory()));
  }
}

TEST_F(Frozen, PlansCountThemApart) {
  TrainConfig config = small_config(folder_ / "run");
  const Context context = make_context(config);
  const auto plan_of = [&](const TrainTask& task) {
    return plan_run(task, config, context, int64_t{1} << 40, /*evaluates=*/false).plan;
  };
  const RunPlan whole = plan_of(small_task(0));
  const RunPlan part = plan_of(half_frozen());
  EXPECT_EQ(part.parameters, 9);
  EXPECT_EQ(part.frozen, 40);
  EXPECT_EQ(part.frozen_bytes, 160);
  EXPECT_EQ(part.parameter_bytes + part.frozen_bytes, whole.parameter_bytes);
  EXPECT_EQ(part.optimizer_bytes - part.number_bytes, 2 * part.parameter_bytes);
  EXPECT_EQ(part.batch_bytes, whole.batch_bytes);
  EXPECT_LE(part.total(), whole.total() - 3 * part.frozen_bytes + 64);
  EXPECT_THAT(describe(part, config, int64_t{1} << 40),
              testing::AllOf(HasSubstr("9 parameters are trained, 40 stay as they are"),
                             HasSubstr("frozen")));
  EXPECT_THAT(describe(whole, config, int64_t{1} << 40), Not(HasSubstr("frozen")));
}

TEST_F(Frozen, ATaskThatDoesNotSayWhereTheyAreIsAnError) {
  TrainTask task = half_frozen();
  task.frozen_weights = nullptr;
  EXPECT_THAT(message_of<Error>([&] {
                run_small(small_config(folder_ / "run"), real_files(), small_data(), task);
              }),
              HasSubstr("frozen weights"));
}

}  // namespace
}  // namespace mstrain
