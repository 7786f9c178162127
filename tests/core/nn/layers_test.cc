#include "core/nn/layers.h"

#include "core/nn/conv.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// What the layer declares for an f32 input like `x`.
template <class F>
std::vector<ParamSpec> declare(const F& layer, const Tensor& x) {
  return declare_params([&](const Params& p) { layer(p, zeros({Dtype::kF32, x.shape()})); });
}

// f64 values for every parameter.
Params random_params(std::span<const ParamSpec> specs, uint64_t seed) {
  Params p;
  for (const ParamSpec& spec : specs) {
    p.set(spec.name, random_tensor(spec.type.shape, seed++));
  }
  return p;
}

std::vector<std::string> names_of(std::span<const ParamSpec> specs) {
  std::vector<std::string> names;
  for (const ParamSpec& spec : specs) {
    names.push_back(fmt::format("{} {}{}", spec.name, to_string(spec.type.shape),
                                spec.decay ? " decayed" : ""));
  }
  return names;
}

TEST(Linear, KeepsLogicalDimsAndIsOneProduct) {
  const Tensor x = random_tensor({2, 5, 4}, 1);
  const auto layer = [&](const Params& p, const Tensor& x) {
    return linear(p / "c_attn", x, {3, 2, 7});
  };
  const auto specs = declare(layer, x);
  EXPECT_THAT(names_of(specs),
              ElementsAre("c_attn.weight [4, 3, 2, 7] decayed", "c_attn.bias [3, 2, 7]"));
  const Params p = random_params(specs, 2);
  const Tensor expected =
      matmul(x, reshape(*p.find("c_attn.weight"), {4, 42})) + reshape(*p.find("c_attn.bias"), {42});
  expect_near(layer(p, x), reshape(expected, {2, 5, 3, 2, 7}));
}

TEST(Linear, SumsOverSeveralDims) {
  const Tensor x = random_tensor({2, 5, 3, 4}, 1);
  const auto layer = [&](const Params& p, const Tensor& x) {
    return linear(p, x, {6}, {.in_dims = 2, .bias = false});
  };
  const auto specs = declare(layer, x);
  EXPECT_THAT(names_of(specs), ElementsAre("weight [3, 4, 6] decayed"));
  const Params p = random_params(specs, 3);
  expect_near(layer(p, x), matmul(reshape(x, {2, 5, 12}), reshape(*p.find("weight"), {12, 6})));
}

TEST(Linear, ReadsAWeightWhoseOutputsComeFirst) {
  const Tensor x = random_tensor({2, 5, 3, 4}, 1);
  const auto layer = [&](const Params& p, const Tensor& x) {
    return linear(p, x, {6, 7}, {.in_dims = 2, .bias = false, .out_first = true});
  };
  const auto specs = declare(layer, x);
  EXPECT_THAT(names_of(specs), ElementsAre("weight [6, 7, 3, 4] decayed"));
  const Params p = random_params(specs, 3);
  const Tensor expected =
      matmul(reshape(x, {2, 5, 12}), reshape(*p.find("weight"), {42, 12}), {.transpose_b = true});
  expect_near(layer(p, x), reshape(expected, {2, 5, 6, 7}));
}

TEST(Linear, TakesAVector) {
  const Tensor x = f64({1, 2});
  Params p;
  p.set("weight", reshape(f64({1, 2, 3, 4, 5, 6}), {2, 3}));
  p.set("bias", f64({10, 20, 30}));
  expect_equal(linear(p, x, {3}), f64({19, 32, 45}));
}

TEST(Linear, RefusesAnInputWithoutEnoughDims) {
  EXPECT_THAT([] { linear(Params() / "head", f64({1}), {3}, {.in_dims = 2}); },
              ThrowsMessage<Error>(HasSubstr("head: the input [1] has less than 2 dims")));
}

TEST(Linear, InitialisesWithinOneOverTheRootOfFanIn) {
  const auto specs = declare_params([](const Params& p) {
    linear(p, zeros({Dtype::kF32, {16}}), {5});
  });
  for (const ParamSpec& spec : specs) {
    EXPECT_EQ(spec.init.kind, Init::Kind::kUniform);
    EXPECT_DOUBLE_EQ(spec.init.scale, 0.25);
  }
  const auto given = declare_params([](const Params& p) {
    linear(p, zeros({Dtype::kF32, {16}}), {5}, {.weight_init = normal_init(0.02)});
  });
  EXPECT_EQ(given[0].init.kind, Init::Kind::kNormal);
  EXPECT_EQ(given[1].init.kind, Init::Kind::kZeros);
}

TEST(Layers, NormsDeclareOnesAndZerosWithoutDecay) {
  const auto specs = declare_params([](const Params& p) {
    const Tensor x = zeros({Dtype::kF32, {2, 8}});
    layer_norm(p / "ln", x);
    rms_norm(p / "rms", x);
  });
  EXPECT_THAT(names_of(specs), ElementsAre("ln.weight [8]", "ln.bias [8]", "rms.weight [8]"));
  EXPECT_EQ(specs[0].init.kind, Init::Kind::kOnes);
  EXPECT_EQ(specs[1].init.kind, Init::Kind::kZeros);
  EXPECT_EQ(specs[2].init.kind, Init::Kind::kOnes);
}

TEST(Layers, NormsUseTheirParameters) {
  const Tensor x = random_tensor({3, 4}, 5);
  Params p;
  p.set("weight", f64({1, 2, 3, 4}));
  p.set("bias", f64({0, 1, 0, 1}));
  expect_equal(layer_norm(p, x, 0.1), layer_norm(x, *p.find("weight"), *p.find("bias"), 0.1));
  expect_equal(rms_norm(p, x, 0.1), rms_norm(x, *p.find("weight"), 0.1));
}

TEST(Layers, EmbeddingPicksRows) {
  Params p;
  p.set("wte.weight", reshape(f64({0, 1, 10, 11, 20, 21}), {3, 2}));
  const Tensor ids = vector({2, 0}, Dtype::kI32);
  expect_equal(embedding(p / "wte", ids, 3, 2), reshape(f64({20, 21, 0, 1}), {2, 2}));
}

TEST(Layers, MlpAppliesTheActivationBetweenLayersOnly) {
  const Tensor x = random_tensor({3, 4}, 6);
  const auto model = [&](const Params& p, const Tensor& x) {
    return mlp(p, x, {5, 2}, Activation::kRelu);
  };
  const auto specs = declare(model, x);
  EXPECT_THAT(names_of(specs), ElementsAre("0.weight [4, 5] decayed", "0.bias [5]",
                                           "1.weight [5, 2] decayed", "1.bias [2]"));
  const Params p = random_params(specs, 7);
  const Tensor hidden = relu(matmul(x, *p.find("0.weight")) + *p.find("0.bias"));
  expect_near(model(p, x), matmul(hidden, *p.find("1.weight")) + *p.find("1.bias"));
}

TEST(Layers, ActivationsGoByName) {
  const Tensor x = f64({-2, -0.5, 0, 1, 3});
  expect_equal(activate(Activation::kGelu, x), gelu(x));
  expect_equal(activate(Activation::kGeluNew, x), gelu_tanh(x));
  expect_equal(activate(Activation::kRelu, x), relu(x));
  expect_equal(activate(Activation::kSilu, x), silu(x));
  EXPECT_EQ(name_of(Activation::kGelu), "gelu");
  EXPECT_EQ(name_of(Activation::kGeluNew), "gelu_new");
  EXPECT_EQ(name_of(Activation::kRelu), "relu");
  EXPECT_EQ(name_of(Activation::kSilu), "silu");
}

TEST(Layers, ConvolutionHasOneBiasForEachChannel) {
  const Tensor x = random_tensor({2, 4, 5, 5}, 8);
  const ConvLayerOptions options{.conv = {.padding = {1, 1, 1, 1}, .groups = 2}};
  const auto layer = [&](const Params& p, const Tensor& x) {
    return conv2d(p / "conv1", x, 6, {3, 3}, options);
  };
  const auto specs = declare(layer, x);
  EXPECT_THAT(names_of(specs), ElementsAre("conv1.weight [6, 2, 3, 3] decayed", "conv1.bias [6]"));
  EXPECT_DOUBLE_EQ(specs[0].init.scale, 1 / std::sqrt(18.0));
  const Params p = random_params(specs, 9);
  const Tensor expected =
      conv2d(x, *p.find("conv1.weight"), options.conv) + reshape(*p.find("conv1.bias"), {6, 1, 1});
  expect_near(layer(p, x), expected);
}

TEST(Initialisers, HaveTheVarianceOfTheirPapers) {
  const auto variance = [](const Init& init) {
    return init.kind == Init::Kind::kUniform ? init.scale * init.scale / 3
                                             : init.scale * init.scale;
  };
  EXPECT_DOUBLE_EQ(variance(xavier_normal(30, 20)), 0.04);
  EXPECT_DOUBLE_EQ(variance(xavier_uniform(30, 20)), 0.04);
  EXPECT_DOUBLE_EQ(variance(kaiming_normal(50)), 0.04);
  EXPECT_DOUBLE_EQ(variance(kaiming_uniform(50)), 0.04);
}

// Of frozen norms only the gradient of what they read is wanted.
TEST(Norms, HaveAGradientWithoutThatOfTheirWeights) {
  const Params p = [] {
    Params out;
    for (const char* name : {"layer.weight", "layer.bias", "rms.weight"}) {
      out.set(name, cast(random_tensor({40}, 3), Dtype::kF32));
    }
    return out;
  }();
  const auto loss = [&](const Tensor& x) {
    const Tensor y = x + layer_norm(p / "layer", x);
    return sum(square(y + rms_norm(p / "rms", y)));
  };
  const Tensor x = cast(random_tensor({6, 40}, 4), Dtype::kF32);
  expect_near(jit(grad(loss))(x), grad(loss)(x), 1e-4);
}

}  // namespace
}  // namespace mstrain
