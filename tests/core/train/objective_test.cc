// The objective of a step is a function of its batch: however it is split, loss and gradients are the same but for rounding.
#include <gmock/gmock.h>

#include "core/ops/shape.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 12;
constexpr int64_t kWidth = 5;

// Weighted regression with dropout in `dtype`: a prediction of weight 0 counts nothing.
TrainTask weighted_task(Dtype dtype, double dropout_rate) {
  const auto model = [dropout_rate](const Params& p, const Tensor& x) {
    const Tensor hidden = dropout(p / "drop", tanh(linear(p / "in", x, {8})), dropout_rate);
    return squeeze(linear(p / "out", hidden, {1}), 1);
  };
  TrainTask task;
  task.parameters = declare_params([&](const Params& p) {
    model(p, zeros({Dtype::kF32, {1, kWidth}}));
  });
  for (ParamSpec& spec : task.parameters) {
    spec.type.dtype = dtype;
    task.stored_shapes.push_back(spec.type.shape);
  }
  task.batch_types = [dtype](int64_t rows) {
    return Types{{dtype, {rows, kWidth}}, {dtype, {rows}}, {dtype, {rows}}};
  };
  task.sums = [model](const Params& p, std::span<const Tensor> batch) {
    const Tensor errors = square(model(p, batch[0]) - batch[1]);
    return TaskSums{{sum(batch[2] * errors), sum(batch[2])}, {}};
  };
  return task;
}

Tensor drawn(const Shape& shape, Dtype dtype, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (double& value : values) {
    value = rng.normal();
  }
  return cast(tensor<double>(values, shape), dtype);
}

struct Step {
  double loss = 0;
  double grad_norm = 0;
  std::vector<double> gradient;  // of all parameters
};

// What one step of plain descent on a batch with these weights finds in micro-batches of `micro`.
Step step_of(const TrainTask& task, Dtype dtype, const std::vector<double>& weights, int64_t micro,
             Execution execution, uint64_t seed) {
  TrainConfig config = small_config("unused");
  config.batch.global = kRows;
  config.run.execution = execution;
  config.optimizer.type = OptimizerType::kSgd;
  config.optimizer.clip_grad.reset();
  config.optimizer.weight_decay = 0;
  Context context;
  context.threads = 1;
  const StepProgram program(task, config, micro, context);
  const Params before = init_params(task.parameters, seed);
  std::vector<std::vector<double>> values;
  for (size_t i = 0; i < before.size(); ++i) {
    values.push_back(to_doubles(before.tensor(i)));
  }
  const Tensors batch{drawn({kRows, kWidth}, dtype, seed + 1), drawn({kRows}, dtype, seed + 2),
                      cast(tensor<double>(weights, {kRows}), dtype)};
  const StepResult result = program.run(program.first_state(init_params(task.parameters, seed)),
                                        batch, {.lr = 1, .seed = seed, .step = 3});
  Step out{item(result.loss), item(result.grad_norm), {}};
  for (size_t i = 0; i < before.size(); ++i) {
    const std::vector<double> after = to_doubles(result.state.params.tensor(i));
    for (size_t j = 0; j < after.size(); ++j) {
      out.gradient.push_back(values[i][j] - after[j]);
    }
  }
  return out;
}

void expect_equal_steps(const Step& a, const Step& b, double tolerance) {
  EXPECT_NEAR(a.loss, b.loss, tolerance * std::abs(b.loss));
  EXPECT_NEAR(a.grad_norm, b.grad_norm, tolerance * b.grad_norm);
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.gradient.size(); ++i) {
    difference += std::pow(a.gradient[i] - b.gradient[i], 2);
    norm += std::pow(b.gradient[i], 2);
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm));
}

// Weights of very different sums in every micro-batch; in most splits some have none at all.
const std::vector<double> kUneven{1, 1, 1, 0, 0, 0, 0, 0, 2, 0.5, 0, 1};

TEST(Objective, IsTheSameForAnySplitOfABatch) {
  for (const auto& [dtype, tolerance] : {std::pair{Dtype::kF64, 1e-12}, {Dtype::kF32, 1e-6}}) {
    for (const double rate : {0.0, 0.4}) {
      for (const Execution execution : {Execution::kGraph, Execution::kEager}) {
        for (const uint64_t seed : {1, 20, 300}) {
          const TrainTask task = weighted_task(dtype, rate);
          const Step whole = step_of(task, dtype, kUneven, kRows, execution, seed);
          for (const int64_t micro : {1, 2, 3, 4, 6}) {
            SCOPED_TRACE(
                fmt::format("{} dropout {} seed {} micro {}", name_of(dtype), rate, seed, micro));
            expect_equal_steps(step_of(task, dtype, kUneven, micro, execution, seed), whole,
                               tolerance);
          }
        }
      }
    }
  }
}

// The gradient of the mean by hand: the same step on the samples that count, each once.
TEST(Objective, DividesByTheCountOfTheWholeStep) {
  const TrainTask task = weighted_task(Dtype::kF64, 0);
  const std::vector<double> ones(kRows, 1);
  const std::vector<double> twos(kRows, 2);
  const Step once = step_of(task, Dtype::kF64, ones, 4, Execution::kGraph, 5);
  expect_equal_steps(step_of(task, Dtype::kF64, twos, 3, Execution::kGraph, 5), once, 1e-12);
  EXPECT_GT(once.grad_norm, 0.1);
}

TEST(Objective, OfABatchThatCountsNothingIsZero) {
  const TrainTask task = weighted_task(Dtype::kF32, 0.3);
  const std::vector<double> none(kRows, 0);
  for (const int64_t micro : {3, 12}) {
    const Step step = step_of(task, Dtype::kF32, none, micro, Execution::kGraph, 2);
    EXPECT_EQ(step.loss, 0);
    EXPECT_EQ(step.grad_norm, 0);
    EXPECT_EQ(step.gradient, std::vector<double>(step.gradient.size(), 0));
  }
}

class Resumed : public Fit {};

// 20 steps with dropout in micro-batches of 8, of 2, and of each in turn.
TEST_F(Resumed, WithOtherMicroBatchesTheRunIsTheSame) {
  const auto last_losses = [](const TrainConfig& config) {
    std::vector<double> losses;
    for (const Json& row :
         read_metrics(real_files(), join_path(config.run.directory(), kMetricsFile))) {
      if (row.contains("loss")) {
        losses.push_back(row["loss"].get<double>());
      }
    }
    return losses;
  };
  TrainConfig whole = small_config(folder_ / "whole");
  whole.log.interval = 1;
  run_small(whole);
  const std::vector<double> expected = last_losses(whole);

  TrainConfig changing = small_config(folder_ / "changing");
  changing.log.interval = 1;
  for (const auto& [until, micro] : {std::pair{5, 8}, {10, 2}, {15, 1}, {20, 4}}) {
    changing.batch.micro = int64_t{micro};
    std::atomic<bool> stop = false;
    const int64_t last = until * 8;
    run_small(changing, real_files(), small_data([&](int64_t first) { stop = first >= last; }),
              small_task(), &stop);
  }
  const std::vector<double> losses = last_losses(changing);
  ASSERT_EQ(losses.size(), expected.size());
  // The order of sums of f32, over up to 20 updates of Adam.
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "step " << i + 1;
  }
}

TEST_F(Resumed, AutoGoesOnWithTheMicroBatchesItBeganWith) {
  TrainConfig config = small_config(folder_ / "run");
  config.batch.micro = 2;
  config.schedule.total_steps = 10;
  run_small(config);
  config.batch.micro = AutoOr<int64_t>();
  config.schedule.total_steps = 20;
  run_small(config);
  const std::string state = checkpoint_file(config.run.directory(), 20, kStateFile);
  EXPECT_THAT(state, HasSubstr("\"micro_batch\": 2"));
}

}  // namespace
}  // namespace mstrain
