#include "core/nn/batch_norm.h"

#include "core/ops/statistics.h"
#include "core/runtime/context.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

class BatchNorm : public ::testing::Test {
 protected:
  BatchNorm() : training_(current_context()) {
    training_.training = true;
    params_.set("bn.weight", f64({2, 1, 0.5}));
    params_.set("bn.bias", f64({0, -1, 3}));
    state_.set("bn.running_mean", f64({1, 2, 3}));
    state_.set("bn.running_var", f64({4, 1, 0.25}));
  }
  Context training_;
  Params params_;
  Params state_;
  const Tensor x_ = random_tensor({4, 3, 5}, 1);
};

TEST_F(BatchNorm, NormalisesEachChannelOverTheBatch) {
  const ContextScope scope(training_);
  const Tensor y = batch_norm(params_ / "bn", state_, x_, {.eps = 0});
  expect_near(mean(y, {0, 2}), f64({0, -1, 3}), 1e-12);
  expect_near(variance(y, {0, 2}), f64({4, 1, 0.25}), 1e-12);
}

TEST_F(BatchNorm, MovesTheRunningStatisticsTowardsTheBatch) {
  const ContextScope scope(training_);
  const Params before = state_;
  batch_norm(params_ / "bn", state_, x_, {.momentum = 0.25});
  expect_near(*state_.find("bn.running_mean"), 0.75 * f64({1, 2, 3}) + 0.25 * mean(x_, {0, 2}));
  expect_near(*state_.find("bn.running_var"),
              0.75 * f64({4, 1, 0.25}) + 0.25 * variance(x_, {0, 2}, false, 1));
  expect_equal(*before.find("bn.running_mean"), f64({1, 2, 3}));
}

TEST_F(BatchNorm, UsesTheRunningStatisticsOutsideOfTraining) {
  const Tensor y = batch_norm(params_ / "bn", state_, x_, {.eps = 0});
  const Tensor centred = x_ - reshape(f64({1, 2, 3}), {3, 1});
  expect_near(y, centred * reshape(f64({1, 1, 1}), {3, 1}) + reshape(f64({0, -1, 3}), {3, 1}));
  expect_equal(*state_.find("bn.running_mean"), f64({1, 2, 3}));
}

TEST_F(BatchNorm, PassesItsStateThroughACompiledStepWithGradients) {
  const ContextScope scope(training_);
  const auto loss = [](const Params& p, Params state, const Tensor& x) {
    const Tensor y = batch_norm(p / "bn", state, x);
    return std::pair(sum(y * y * y), state);
  };
  const auto eager = value_and_grad(loss)(params_, state_, x_);
  const auto compiled = jit(value_and_grad(loss))(params_, state_, x_);
  const Tensors expected = flatten_tree(eager);
  const Tensors actual = flatten_tree(compiled);
  ASSERT_EQ(actual.size(), 5u);
  for (size_t i = 0; i < actual.size(); ++i) {
    expect_near(actual[i], expected[i]);
  }
}

TEST_F(BatchNorm, DeclaresParametersAndStateApart) {
  const StatefulSpecs specs = declare_stateful([](const Params& p, Params& state) {
    const Tensor x = batch_norm(p / "bn1", state, zeros({Dtype::kF32, {2, 3, 4, 4}}));
    batch_norm(p / "bn2", state, x);
  });
  ASSERT_EQ(specs.params.size(), 4u);
  ASSERT_EQ(specs.state.size(), 4u);
  EXPECT_EQ(specs.params[2].name, "bn2.weight");
  EXPECT_EQ(specs.state[0].name, "bn1.running_mean");
  EXPECT_EQ(specs.state[3].name, "bn2.running_var");
  EXPECT_EQ(specs.state[3].init.kind, Init::Kind::kOnes);
}

TEST_F(BatchNorm, RefusesASingleValueInTraining) {
  const ContextScope scope(training_);
  EXPECT_THROW(batch_norm(params_ / "bn", state_, zeros({Dtype::kF64, {1, 3}})), Error);
}

}  // namespace
}  // namespace mstrain
