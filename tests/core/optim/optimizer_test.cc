#include "core/optim/optimizer.h"

#include "core/ops/matmul.h"
#include "core/optim/muon.h"
#include "tests/core/transform/support.h"
#include "tests/golden/optimizers.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<ParamSpec>& layer_specs() {
  static const std::vector<ParamSpec> specs{
      {"layer.weight", {Dtype::kF64, {2, 3}}, zeros_init(), true},
      {"layer.bias", {Dtype::kF64, {3}}, zeros_init(), false}};
  return specs;
}

Params start(Dtype dtype) {
  Params p;
  p.set("layer.weight", reshape(vector({0.5, -1, 2, -0.25, 1.5, -0.75}, dtype), {2, 3}));
  p.set("layer.bias", vector({0.125, -0.5, 1}, dtype));
  return p;
}

// The numbers of tests/golden/optimizers.py, all exact in binary.
Tensor gradient(int step, int count, int offset, double scale, Dtype dtype) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(scale * ((i * 7 + step * 5 + offset) % 11 - 5) / 8);
  }
  return cast(tensor<double>(values, {count}), dtype);
}

Params gradients(int step, double scale, Dtype dtype) {
  Params g;
  g.set("layer.weight", reshape(gradient(step, 6, 0, scale, dtype), {2, 3}));
  g.set("layer.bias", gradient(step, 3, 3, scale, dtype));
  return g;
}

std::vector<double> elements(const Params& p) {
  std::vector<double> all = to_doubles(*p.find("layer.weight"));
  const std::vector<double> bias = to_doubles(*p.find("layer.bias"));
  all.insert(all.end(), bias.begin(), bias.end());
  return all;
}

// Five updates; the gradients come four times too large and are scaled back.
template <class Update>
Params train(const Update& update, const Optimizer& optimizer, Dtype dtype) {
  Params params = start(dtype);
  OptimizerState state = optimizer.init(params);
  for (int step = 0; step < 5; ++step) {
    std::tie(params, state) = update(params, gradients(step, 4, dtype), state,
                                     scalar(0.1 / (step + 1), dtype), scalar(0.25, dtype));
  }
  EXPECT_EQ(item(state.step), 5);
  return params;
}

OptimizerConfig config_of(OptimizerType type) {
  OptimizerConfig config{.type = type, .weight_decay = 0.1};
  if (type == OptimizerType::kAdam || type == OptimizerType::kAdamW ||
      type == OptimizerType::kLamb || type == OptimizerType::kMuon) {
    config.betas = {0.9, 0.99};
  }
  if (type != OptimizerType::kSgd) {
    config.eps = 1e-6;
  }
  if (type == OptimizerType::kMuon) {
    config.momentum = 0.95;
    config.nesterov = true;
  }
  if (type == OptimizerType::kRmsProp) {
    config.alpha = 0.95;
  }
  return config;
}

void expect_updates(const OptimizerConfig& config, const golden::Updated& expected) {
  const Optimizer optimizer(config, layer_specs());
  const auto update = [&](Params p, Params g, OptimizerState s, const Tensor& lr,
                          const Tensor& scale) {
    return optimizer.update(std::move(p), std::move(g), std::move(s), lr, scale);
  };
  const auto step = jit(update);
  for (const auto& [dtype, tolerance] : {std::pair(Dtype::kF64, 1e-13), {Dtype::kF32, 3e-6}}) {
    const std::vector<double> eager = elements(train(update, optimizer, dtype));
    const std::vector<double> compiled = elements(train(step, optimizer, dtype));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(eager[i], expected[i], tolerance) << name_of(dtype) << " element " << i;
      EXPECT_NEAR(compiled[i], expected[i], tolerance) << name_of(dtype) << " element " << i;
    }
  }
  EXPECT_EQ(step.compile_count(), 2) << "a new learning rate must not compile again";
}

TEST(Optimizer, SgdEqualsPyTorch) { expect_updates(config_of(OptimizerType::kSgd), golden::kSgd); }
TEST(Optimizer, MomentumEqualsPyTorch) {
  OptimizerConfig config = config_of(OptimizerType::kSgd);
  config.momentum = 0.9;
  expect_updates(config, golden::kMomentum);
}
TEST(Optimizer, NesterovEqualsPyTorch) {
  OptimizerConfig config = config_of(OptimizerType::kSgd);
  config.momentum = 0.9;
  config.nesterov = true;
  expect_updates(config, golden::kNesterov);
}
TEST(Optimizer, AdamEqualsPyTorch) {
  expect_updates(config_of(OptimizerType::kAdam), golden::kAdam);
}
TEST(Optimizer, AdamWEqualsPyTorch) {
  expect_updates(config_of(OptimizerType::kAdamW), golden::kAdamW);
}
TEST(Optimizer, AdagradEqualsPyTorch) {
  expect_updates(config_of(OptimizerType::kAdagrad), golden::kAdagrad);
}
TEST(Optimizer, RmsPropEqualsPyTorch) {
  expect_updates(config_of(OptimizerType::kRmsProp), golden::kRmsProp);
}
TEST(Optimizer, RmsPropWithMomentumEqualsPyTorch) {
  OptimizerConfig config = config_of(OptimizerType::kRmsProp);
  config.momentum = 0.9;
  expect_updates(config, golden::kRmsPropMomentum);
}
TEST(Optimizer, LambEqualsItsFormulas) {
  expect_updates(config_of(OptimizerType::kLamb), golden::kLamb);
}

// A layer's matrix is made orthogonal; its bias, and a matrix of no layer, take the steps of AdamW.
TEST(Optimizer, MuonEqualsItsFormulas) {
  const MatrixForm form{.in_dims = 1, .out_first = false};
  const std::vector<ParamSpec> specs{
      {"layer.0.weight", {Dtype::kF64, {2, 3}}, zeros_init(), true, form},
      {"layer.0.bias", {Dtype::kF64, {3}}, zeros_init(), false},
      {"head.weight", {Dtype::kF64, {2, 3}}, zeros_init(), true, form}};
  OptimizerConfig config = config_of(OptimizerType::kMuon);
  const Optimizer optimizer(config, specs);
  EXPECT_THAT(optimizer.slot_names(), ElementsAre("momentum_buffer", "exp_avg", "exp_avg_sq"));
  const Params values = start(Dtype::kF64);
  Params params;
  params.set("layer.0.weight", *values.find("layer.weight"));
  params.set("layer.0.bias", *values.find("layer.bias"));
  params.set("head.weight", *values.find("layer.weight"));
  OptimizerState state = optimizer.init(params);
  std::vector<std::string> paths;
  flatten_tree(state, &paths);
  EXPECT_THAT(paths, ElementsAre("step", "momentum_buffer.layer.0.weight", "exp_avg.layer.0.bias",
                                 "exp_avg.head.weight", "exp_avg_sq.layer.0.bias",
                                 "exp_avg_sq.head.weight"));
  for (int step = 0; step < 5; ++step) {
    const Params given = gradients(step, 4, Dtype::kF64);
    Params grads;
    grads.set("layer.0.weight", *given.find("layer.weight"));
    grads.set("layer.0.bias", *given.find("layer.bias"));
    grads.set("head.weight", *given.find("layer.weight"));
    std::tie(params, state) = optimizer.update(
        params, grads, state, scalar(0.1 / (step + 1), Dtype::kF64), scalar(0.25, Dtype::kF64));
  }
  const auto expect_equal_to = [&](const char* name, const golden::Updated& expected,
                                   size_t first) {
    const std::vector<double> got = to_doubles(*params.find(name));
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[first + i], 1e-12) << name << " " << i;
    }
  };
  expect_equal_to("layer.0.weight", golden::kMuon, 0);
  expect_equal_to("layer.0.bias", golden::kMuon, 6);
  expect_equal_to("head.weight", golden::kAdamW, 0);
}

// Rows or columns, whichever are fewer, have lengths near 1 and stand upright on each other.
TEST(Optimizer, OrthogonalisedMatricesKeepTheirDirectionsAndLoseTheirSizes) {
  for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{5, 5}}) {
    const Tensor x = random_tensor(shape, 1);
    const Tensor y = orthogonalised(x);
    const bool is_tall = shape[0] > shape[1];
    const std::vector<double> gram =
        to_doubles(matmul(y, y, {.transpose_a = is_tall, .transpose_b = !is_tall}));
    const int64_t n = std::min(shape[0], shape[1]);
    double trace = 0;
    double square = 0;
    for (int64_t i = 0; i < n * n; ++i) {
      trace += i % (n + 1) == 0 ? gram[static_cast<size_t>(i)] : 0;
      square += gram[static_cast<size_t>(i)] * gram[static_cast<size_t>(i)];
    }
    // Singular values between .65 and 1.25.
    EXPECT_GT(trace, 0.42 * static_cast<double>(n)) << to_string(shape);
    EXPECT_LT(square, 2.5 * static_cast<double>(n)) << to_string(shape);
  }
  const Tensor nothing = orthogonalised(zeros({Dtype::kF32, {3, 2}}));
  EXPECT_EQ(to_doubles(nothing), std::vector<double>(6));
}

TEST(Optimizer, HiddenMatricesAreThoseOfNumberedLayers) {
  const MatrixForm form;
  const auto is_hidden = [&](const char* name, bool decay, std::optional<MatrixForm> matrix) {
    return hidden_matrix({name, {Dtype::kF32, {2, 2}}, zeros_init(), decay, matrix}).has_value();
  };
  EXPECT_TRUE(is_hidden("h.0.attn.c_attn.weight", true, form));
  EXPECT_TRUE(is_hidden("deep.12.weight", true, form));
  EXPECT_FALSE(is_hidden("wte.weight", true, form));
  EXPECT_FALSE(is_hidden("h.0.attn.bias", false, {}));
  EXPECT_FALSE(is_hidden("h0.attn.weight", true, form));
  EXPECT_FALSE(is_hidden("h.0.relative.weight", true, {}));
  // The kernels of convolutions: [out, in, height, width].
  const auto kernel = hidden_matrix(
      {"blocks.0.conv_1.weight", {Dtype::kF32, {8, 4, 3, 3}}, zeros_init(), true, {}});
  EXPECT_EQ(kernel, (MatrixForm{.in_dims = 3, .out_first = true}));
}

TEST(Optimizer, LambStandsStillWhereDirectionAndParameterAreZero) {
  const Optimizer optimizer({.type = OptimizerType::kLamb}, layer_specs());
  Params params;
  params.set("layer.weight", zeros({Dtype::kF32, {2, 3}}));
  Params grads;
  grads.set("layer.weight", zeros({Dtype::kF32, {2, 3}}));
  const auto [updated, state] =
      optimizer.update(params, grads, optimizer.init(params), scalar(0.1), scalar(1));
  expect_equal(*updated.find("layer.weight"), *params.find("layer.weight"));
}

TEST(Optimizer, CorrectsTheFirstStepToFullPrecision) {
  // The first Adam step has length lr whatever the gradient; 1 - beta2 in f32 alone would be wrong by 1e-5.
  const Optimizer optimizer({.eps = 0}, layer_specs());
  Params params = start(Dtype::kF32);
  const auto [updated, state] = optimizer.update(params, gradients(0, 1, Dtype::kF32),
                                                 optimizer.init(params), scalar(1), scalar(1));
  const std::vector<double> after = elements(updated);
  const std::vector<double> before = elements(params);
  for (size_t i = 0; i < after.size(); ++i) {
    const double moved = std::abs(after[i] - before[i]);
    EXPECT_TRUE(std::isnan(moved) || std::abs(moved - 1) < 5e-7)
        << i << ": " << moved;  // 0/0 where g is 0
  }
}

TEST(Optimizer, StateHasANameForEachTensor) {
  const Optimizer optimizer({.type = OptimizerType::kRmsProp, .momentum = 0.5}, layer_specs());
  std::vector<std::string> paths;
  flatten_tree(optimizer.init(start(Dtype::kF32)), &paths);
  EXPECT_THAT(paths, ElementsAre("step", "square_avg.layer.weight", "square_avg.layer.bias",
                                 "momentum_buffer.layer.weight", "momentum_buffer.layer.bias"));
  EXPECT_THAT(Optimizer({.type = OptimizerType::kSgd}, layer_specs()).slot_names(), ElementsAre());
  EXPECT_THAT(Optimizer({}, layer_specs()).slot_names(), ElementsAre("exp_avg", "exp_avg_sq"));
}

TEST(Optimizer, LeavesItsArgumentsAsTheyWere) {
  const Optimizer optimizer({}, layer_specs());
  const Params params = start(Dtype::kF32);
  const Params grads = gradients(0, 1, Dtype::kF32);
  const OptimizerState state = optimizer.init(params);
  optimizer.update(params, grads, state, scalar(0.1), scalar(1));
  EXPECT_EQ(elements(params), elements(start(Dtype::kF32)));
  EXPECT_EQ(elements(grads), elements(gradients(0, 1, Dtype::kF32)));
  EXPECT_EQ(item(state.step), 0);
}

TEST(Optimizer, NamesTheParameterThatDoesNotFit) {
  const Optimizer optimizer({}, layer_specs());
  const Params params = start(Dtype::kF32);
  const OptimizerState state = optimizer.init(params);
  const auto update = [&](const Params& p, const Params& g, const OptimizerState& s) {
    optimizer.update(p, g, s, scalar(0.1), scalar(1));
  };
  Params grads = gradients(0, 1, Dtype::kF32);
  grads.set("layer.bias", zeros({Dtype::kF32, {2}}));
  EXPECT_THAT(
      [&] { update(params, grads, state); },
      ThrowsMessage<Error>(HasSubstr("parameter layer.bias is f32[3], its gradient f32[2]")));
  Params more = params;
  more.set("layer.scale", scalar(1));
  EXPECT_THAT([&] { update(more, gradients(0, 1, Dtype::kF32), state); },
              ThrowsMessage<Error>(HasSubstr("parameter layer.scale was not declared")));
  EXPECT_THAT(
      [&] {
        update(params, gradients(0, 1, Dtype::kF32), OptimizerState{state.step, {}});
      },
      ThrowsMessage<Error>(HasSubstr("adamw keeps 2 tensors for each parameter, the state has 0")));
}

TEST(OptimizerConfig, RefusesKeysThatTheRuleDoesNotUse) {
  const auto expect_refused = [](const std::string& yaml, const std::string& message) {
    const YamlNode tree = parse_yaml("optimizer: " + yaml, "my.yaml");
    OptimizerConfig config;
    read_config(*find_config(tree, "optimizer"), config);
    EXPECT_THAT([&] { check_optimizer_config(config, tree); },
                ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  expect_refused("{type: sgd, betas: [0.9, 0.99]}",
                 "my.yaml:1: optimizer.betas: sgd does not use it");
  expect_refused("{type: sgd, eps: 1.0e-6}", "optimizer.eps");
  expect_refused("{type: adamw, momentum: 0.9}", "optimizer.momentum: adamw does not use it");
  expect_refused("{type: adam, alpha: 0.9}", "optimizer.alpha");
  expect_refused("{type: rmsprop, nesterov: true, momentum: 0.9}", "optimizer.nesterov: rmsprop");
  expect_refused("{type: sgd, nesterov: true}", "needs optimizer.momentum above 0");
  expect_refused("{type: muon}", "optimizer.momentum: muon needs some; say 0.95");
  const auto accepts = [](const OptimizerConfig& config) { check_optimizer_config(config); };
  EXPECT_NO_THROW(accepts({.type = OptimizerType::kSgd, .momentum = 0.9, .nesterov = true}));
  EXPECT_NO_THROW(accepts({.type = OptimizerType::kAdagrad, .eps = 1e-10}));
}

TEST(OptimizerConfig, ReadsBackWhatItWrites) {
  OptimizerConfig config{
      .type = OptimizerType::kRmsProp, .lr = 3e-4, .momentum = 0.5, .clip_grad = {}};
  OptimizerConfig read;
  read_config(write_config(config), read);
  EXPECT_EQ(to_yaml(write_config(read)), to_yaml(write_config(config)));
  EXPECT_EQ(read.type, OptimizerType::kRmsProp);
  EXPECT_FALSE(read.clip_grad.has_value());
}

}  // namespace
}  // namespace mstrain
