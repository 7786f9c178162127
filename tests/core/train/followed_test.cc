// Running statistics that a run's steps move: functions of the batch like its gradients, and of no rule of an optimizer.
#include "core/nn/batch_norm.h"
#include "core/ops/shape.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

constexpr int64_t kBatchRows = 12;
constexpr int64_t kGroup = 3;
constexpr int64_t kHidden = 8;

TrainTask normalised_task(double scale = 1) {
  return regression_task([scale](const Params& p, const Tensor& x) {
    const Tensor hidden = batch_norm(p / "norm", linear(p / "in", x, {kHidden}) * scale,
                                     {.momentum = 0.25, .samples = kGroup});
    return linear(p / "out", tanh(hidden), {1});
  });
}

Tensors samples() {
  return IndexedBatches(7, BatchPart(kBatchRows, kBatchRows, 1, 0), 0, nullptr).next();
}

TrainConfig config_of(OptimizerType type, Execution execution) {
  TrainConfig config = small_config("unused");
  config.batch.global = kBatchRows;
  config.run.execution = execution;
  config.optimizer.type = type;
  config.optimizer.momentum = type == OptimizerType::kMuon ? 0.95 : 0;
  config.optimizer.weight_decay = 0.5;
  config.optimizer.clip_grad = 1e-3;
  return config;
}

StepResult step_of(const TrainTask& task, const TrainConfig& config, int64_t micro) {
  Context context;
  context.threads = 1;
  const StepProgram program(task, config, micro, context);
  return program.run(program.first_state(init_params(task.parameters, 3)), samples(),
                     {.lr = 0.1, .seed = 5, .step = 0});
}

// Of the values that the statistics are of, by hand.
std::vector<std::vector<float>> values_to_normalise(const TrainTask& task) {
  const Params first = init_params(task.parameters, 3);
  const std::vector<float> x = to_vector<float>(linear(first / "in", samples()[0], {kHidden}));
  std::vector<std::vector<float>> by_channel(kHidden);
  for (size_t i = 0; i < x.size(); ++i) {
    by_channel[i % kHidden].push_back(x[i]);
  }
  return by_channel;
}

TEST(Followed, StatisticsMoveToTheMeanOfTheirGroupsWhateverTheOptimizer) {
  const TrainTask task = normalised_task();
  const auto values = values_to_normalise(task);
  for (const OptimizerType type :
       {OptimizerType::kAdamW, OptimizerType::kSgd, OptimizerType::kLamb, OptimizerType::kMuon}) {
    for (const Execution execution : {Execution::kGraph, Execution::kEager}) {
      for (const int64_t micro : {kGroup, 2 * kGroup, kBatchRows}) {
        SCOPED_TRACE(fmt::format("optimizer {}, micro {}", name_of(type), micro));
        const StepResult result = step_of(task, config_of(type, execution), micro);
        const std::vector<float> means =
            to_vector<float>(*result.state.params.find("norm.running_mean"));
        const std::vector<float> variances =
            to_vector<float>(*result.state.params.find("norm.running_var"));
        for (size_t c = 0; c < kHidden; ++c) {
          double mean = 0, variance = 0;
          for (size_t g = 0; g < kBatchRows / kGroup; ++g) {
            const auto own = std::span(values[c]).subspan(g * kGroup, kGroup);
            const double centre = (own[0] + own[1] + own[2]) / 3.0;
            double squares = 0;
            for (const float each : own) {
              squares += std::pow(each - centre, 2);
            }
            mean += centre / (kBatchRows / kGroup);
            variance += squares / (kGroup - 1) / (kBatchRows / kGroup);
          }
          EXPECT_NEAR(means[c], 0.25 * mean, 2e-6);
          EXPECT_NEAR(variances[c], 0.75 + 0.25 * variance, 2e-6);
        }
      }
    }
  }
}

TEST(Followed, StatisticsAreNoPartOfTheNormThatClips) {
  TrainConfig config = config_of(OptimizerType::kSgd, Execution::kGraph);
  config.optimizer.weight_decay = 0;
  config.optimizer.clip_grad.reset();
  const TrainTask task = normalised_task();
  const Params before = init_params(task.parameters, 3);
  const StepResult result = step_of(task, config, 6);
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (!task.parameters[i].follows) {
      const std::vector<float> from = to_vector<float>(before.tensor(i));
      const std::vector<float> to = to_vector<float>(result.state.params.tensor(i));
      for (size_t j = 0; j < from.size(); ++j) {
        squares += std::pow((from[j] - to[j]) / 0.1, 2);
      }
    }
  }
  EXPECT_NEAR(item(result.grad_norm), std::sqrt(squares), 1e-4 * std::sqrt(squares));
}

// Losses, and gradients but for the order of sums.
TEST(Followed, ABatchIsWorthTheSameHoweverItIsDivided) {
  TrainConfig config = config_of(OptimizerType::kSgd, Execution::kGraph);
  config.optimizer.weight_decay = 0;
  const TrainTask task = normalised_task();
  const StepResult whole = step_of(task, config, kBatchRows);
  for (const int64_t micro : {kGroup, 2 * kGroup}) {
    const StepResult divided = step_of(task, config, micro);
    EXPECT_NEAR(item(divided.loss), item(whole.loss), 1e-6 * std::abs(item(whole.loss)));
    EXPECT_NEAR(item(divided.grad_norm), item(whole.grad_norm), 1e-5 * item(whole.grad_norm));
  }
  EXPECT_THROW(step_of(task, config, 4), Error);
}

// A loss scale takes gradients of a mean loss to the range of fp16, where what statistics are off by lies already.
TEST(Followed, InFp16StatisticsMoveAsInFp32WhateverTheLossScale) {
  TrainConfig config = config_of(OptimizerType::kSgd, Execution::kGraph);
  config.log.layers = 1;
  const TrainTask task = normalised_task(20);
  const auto steps_of = [&](int64_t micro) {
    const StepProgram program(task, config, micro, Context());
    TrainState state = program.first_state(init_params(task.parameters, 3));
    StepResult result;
    for (int64_t step = 0; step < 4; ++step) {
      result = program.run(std::move(state), samples(), {.lr = 0.01, .seed = 5, .step = step});
      EXPECT_TRUE(std::isfinite(item(result.loss)) && std::isfinite(item(result.grad_norm)));
      state = std::move(result.state);
    }
    result.state = std::move(state);
    return result;
  };
  const StepResult wide = steps_of(kBatchRows);
  ASSERT_GT(item(max(*wide.state.params.find("norm.running_var"))), 100);
  config.precision.params = FloatType::kFp16;
  for (const double loss_scale : {65536.0, 1024.0, 1.0}) {
    for (const int64_t micro : {kGroup, kBatchRows}) {
      SCOPED_TRACE(fmt::format("loss scale {}, micro {}", loss_scale, micro));
      config.precision.loss_scale_init = loss_scale;
      const StepResult result = steps_of(micro);
      for (size_t i = 0; i < task.parameters.size(); ++i) {
        if (task.parameters[i].follows) {
          const Tensor expected = wide.state.params.tensor(i);
          const Tensor found = cast(result.state.params.tensor(i), Dtype::kF32);
          EXPECT_LT(item(max(abs(found - expected))), 0.01 * item(max(abs(expected))));
          EXPECT_NEAR(item(result.layer_norms[i]), item(wide.layer_norms[i]),
                      0.01 * item(wide.layer_norms[i]));
        }
      }
    }
  }
}

TEST(Followed, AStatisticBeyondFp16IsAnOverflow) {
  TrainConfig config = config_of(OptimizerType::kSgd, Execution::kGraph);
  config.precision.params = FloatType::kFp16;
  const TrainTask task = normalised_task(2000);
  const StepProgram program(task, config, kBatchRows, Context());
  const Params first = program.first_state(init_params(task.parameters, 3)).params;
  const StepResult result = program.run(program.first_state(init_params(task.parameters, 3)),
                                        samples(), {.lr = 0.1, .seed = 5, .step = 0});
  EXPECT_TRUE(std::isfinite(item(result.loss)));
  EXPECT_EQ(item(result.grad_norm), std::numeric_limits<double>::infinity());
  EXPECT_LT(item(result.state.optimizer.loss_scale->scale), config.precision.loss_scale_init);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(to_doubles(result.state.params.tensor(i)), to_doubles(first.tensor(i)));
  }
}

}  // namespace
}  // namespace mstrain
