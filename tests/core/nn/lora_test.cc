#include "core/nn/lora.h"

#include "core/nn/layers.h"
#include "core/nn/random_scope.h"
#include "core/runtime/context.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;

// Heads come in and go out: [b, 2, 3] to [b, 4, 5].
Tensor heads_to_heads(const Params& p, const Tensor& x) {
  return linear(p / "attn" / "o_proj", x, {4, 5}, {.in_dims = 2, .out_first = true});
}

std::vector<ParamSpec> specs_with(const LoraConfig& lora) {
  const LoraScope scope(&lora);
  return declare_params([](const Params& p) {
    heads_to_heads(p, zeros({Dtype::kF32, {1, 2, 3}}));
  });
}

Params random_weights(std::span<const ParamSpec> specs) {
  Params p;
  uint64_t seed = 5;
  for (const ParamSpec& spec : specs) {
    p.set(spec.name, random_tensor(spec.type.shape, seed++));
  }
  return p;
}

TEST(Lora, AddsTheProductOfTwoThinMatrices) {
  for (const bool stabilised : {false, true}) {
    const LoraConfig lora{.rank = 4, .alpha = 3, .use_rslora = stabilised};
    const std::vector<ParamSpec> specs = specs_with(lora);
    std::vector<std::string> names;
    for (const ParamSpec& spec : specs) {
      names.push_back(spec.name + " " + to_string(spec.type.shape));
    }
    EXPECT_THAT(names, ElementsAre("attn.o_proj.weight [4, 5, 2, 3]", "attn.o_proj.bias [4, 5]",
                                   "attn.o_proj.lora_A.weight [4, 2, 3]",
                                   "attn.o_proj.lora_B.weight [4, 5, 4]"));
    const Params p = random_weights(specs);
    const Tensor x = random_tensor({7, 2, 3}, 1);
    const Tensor a = reshape(*p.find("attn.o_proj.lora_A.weight"), {4, 6});
    const Tensor b = reshape(*p.find("attn.o_proj.lora_B.weight"), {20, 4});
    const double scale = stabilised ? 1.5 : 0.75;
    const Tensor added = scale * matmul(matmul(reshape(x, {7, 6}), a, {.transpose_b = true}), b,
                                        {.transpose_b = true});
    const Tensor plain = heads_to_heads(p, x);
    const LoraScope scope(&lora);
    expect_near(heads_to_heads(p, x), plain + reshape(added, {7, 4, 5}));
  }
}

TEST(Lora, BeginsAsTheModelItself) {
  const LoraConfig lora{.rank = 3};
  const Params p = init_params(specs_with(lora), 1);
  const Tensor x = cast(random_tensor({7, 2, 3}, 1), Dtype::kF32);
  const Tensor plain = heads_to_heads(p, x);
  const LoraScope scope(&lora);
  expect_near(heads_to_heads(p, x), plain, 0);
  for (const double value : to_doubles(*p.find("attn.o_proj.lora_A.weight"))) {
    EXPECT_LT(std::abs(value), 1 / std::sqrt(6.0));
    EXPECT_NE(value, 0);
  }
}

TEST(Lora, TargetsAreEndsOfNames) {
  LoraConfig lora;
  EXPECT_TRUE(lora.adapts("anything.at.all"));
  lora.targets = std::vector<std::string>{"q_proj", "mlp.up_proj"};
  EXPECT_TRUE(lora.adapts("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(lora.adapts("q_proj"));
  EXPECT_TRUE(lora.adapts("layers.0.mlp.up_proj"));
  EXPECT_FALSE(lora.adapts("layers.0.other.up_proj"));
  EXPECT_FALSE(lora.adapts("layers.0.eq_proj"));
  EXPECT_EQ(specs_with(lora).size(), 2);
}

TEST(Lora, ModulesToSaveAreTrainedWhole) {
  const LoraConfig lora{.modules_to_save = {"classifier"}};
  EXPECT_TRUE(lora.trains("classifier.weight"));
  EXPECT_TRUE(lora.trains("vit.classifier.bias"));
  EXPECT_TRUE(lora.trains("h.0.attn.lora_B.weight"));
  EXPECT_FALSE(lora.trains("h.0.attn.weight"));
  EXPECT_FALSE(lora.trains("classifiers.weight"));
}

TEST(Lora, ScopesEnd) {
  const LoraConfig lora;
  {
    const LoraScope scope(&lora);
    const LoraScope none(nullptr);
    EXPECT_EQ(declare_params([](const Params& p) {
                heads_to_heads(p, zeros({Dtype::kF32, {1, 2, 3}}));
              }).size(),
              2);
  }
  EXPECT_EQ(declare_params([](const Params& p) {
              heads_to_heads(p, zeros({Dtype::kF32, {1, 2, 3}}));
            }).size(),
            2);
}

TEST(Lora, DropsOutWhatAdaptersReadInTrainingAlone) {
  const LoraConfig lora{.rank = 4, .dropout = 0.5};
  const Params p = random_weights(specs_with(lora));
  const Tensor x = random_tensor({7, 2, 3}, 1);
  const Tensor plain = heads_to_heads(p, x);
  const LoraScope scope(&lora);
  const Tensor whole = heads_to_heads(p, x);
  Context training = current_context();
  training.training = true;
  const ContextScope context(training);
  const RandomScope random(rng_key(3));
  const std::vector<double> dropped = to_doubles(heads_to_heads(p, x));
  EXPECT_NE(dropped, to_doubles(whole));
  EXPECT_NE(dropped, to_doubles(plain));
}

TEST(Lora, ListsLinearLayers) {
  const std::vector<LinearLayer> plain = linear_layers([] {
    declare_params([](const Params& p) { heads_to_heads(p, zeros({Dtype::kF32, {1, 2, 3}})); });
  });
  ASSERT_EQ(plain.size(), 1);
  EXPECT_EQ(plain[0].path, "attn.o_proj");
  EXPECT_EQ(plain[0].in, Shape({2, 3}));
  EXPECT_EQ(plain[0].out, Shape({4, 5}));
  EXPECT_TRUE(plain[0].out_first);
}

}  // namespace
}  // namespace mstrain
