#include "suites/transformer/gpt/model.h"

#include "core/nn/random_scope.h"
#include "core/ops/index.h"
#include "core/ops/random.h"
#include "core/runtime/context.h"
#include "tests/core/transform/support.h"
#include "tests/suites/transformer/golden_model.h"

namespace mstrain::gpt {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

GptConfig tiny_gpt() {
  GptConfig config;
  config.vocab_size = 11;
  config.hidden_size = 12;
  config.num_layers = 2;
  config.num_attention_heads = 3;
  config.max_position_embeddings = 8;
  return config;
}

const golden::Case& plain() {
  static const golden::File kFile = golden::read_file("gpt_hf");
  return kFile.cases.front();
}

Params golden_params(const Gpt& model, Dtype dtype) {
  return golden::params(model.specs(), plain(), dtype);
}

struct Example {
  Tensor tokens, targets;
};
// Targets are the labels of tests/golden/gpt_hf.py, one place on.
Example golden_example() {
  std::vector<int32_t> targets;
  for (int b = 0; b < 2; ++b) {
    for (int t = 1; t <= 6; ++t) {
      const bool is_label = t < 6 && !(b == 0 && t == 2);
      targets.push_back(is_label ? (5 * b + 4 * t + 1) % 11 : -100);
    }
  }
  return {golden::tokens(), tensor<int32_t>(targets, {2, 6})};
}

void expect_golden(const Gpt& model, Dtype dtype, double tolerance) {
  const Params p = golden_params(model, dtype);
  const auto [tokens, targets] = golden_example();
  const std::vector<double> logits = to_doubles(model(p, tokens));
  for (size_t i = 0; i < plain().logits.size(); ++i) {
    EXPECT_NEAR(logits[(6 + 3) * 11 + i], plain().logits[i], tolerance);
  }
  const auto loss = [&model](const Params& p, const Tensor& x, const Tensor& y) {
    return model.loss(p, x, y);
  };
  const auto eager = value_and_grad(loss)(p, tokens, targets);
  const auto compiled = jit(value_and_grad(loss))(p, tokens, targets);
  for (const auto& [value, grads] : {eager, compiled}) {
    EXPECT_NEAR(item(value), plain().loss, tolerance);
    golden::expect_gradients(grads, plain(), {.absolute = tolerance});
  }
}

TEST(Gpt, EqualsHuggingFacesImplementation) {
  expect_golden(Gpt(tiny_gpt()), Dtype::kF64, 1e-12);
  expect_golden(Gpt(tiny_gpt()), Dtype::kF32, 1e-5);
}

TEST(Gpt, RecomputedEqualsHuggingFacesImplementation) {
  expect_golden(Gpt(tiny_gpt(), Recompute::kFull), Dtype::kF64, 1e-12);
  expect_golden(Gpt(tiny_gpt(), Recompute::kSelective), Dtype::kF64, 1e-12);
}

int64_t parameter_count(int64_t width, int64_t layers, int64_t heads) {
  GptConfig config;
  config.vocab_size = 50257;
  config.hidden_size = width;
  config.num_layers = layers;
  config.num_attention_heads = heads;
  int64_t count = 0;
  for (const ParamSpec& spec : Gpt(config).specs()) {
    count += spec.type.elements();
  }
  return count;
}

TEST(Gpt, HasTheKnownNumbersOfParameters) {
  EXPECT_EQ(parameter_count(768, 12, 12), 124439808);
  EXPECT_EQ(parameter_count(1024, 24, 16), 354823168);
  EXPECT_EQ(parameter_count(1280, 36, 20), 774030080);
  EXPECT_EQ(parameter_count(1600, 48, 25), 1557611200);
  EXPECT_EQ(parameter_count(5120, 35, 40), 11274946560);
}

TEST(Gpt, DecaysMatricesOnlyAndShrinksResidualWeights) {
  const double residual = 0.02 / std::sqrt(4.0);
  for (const ParamSpec& spec : Gpt(tiny_gpt()).specs()) {
    const bool matrix =
        spec.name.ends_with("weight") && spec.name.find(".ln_") == std::string::npos;
    EXPECT_EQ(spec.decay, matrix) << spec.name;
    EXPECT_EQ(spec.init.kind == Init::Kind::kNormal, matrix) << spec.name;
    if (matrix) {
      EXPECT_DOUBLE_EQ(spec.init.scale, spec.name.ends_with("c_proj.weight") ? residual : 0.02)
          << spec.name;
    }
  }
}

TEST(Gpt, StartsNearTheEntropyOfItsVocabulary) {
  const Gpt model(tiny_gpt());
  const auto [tokens, targets] = golden_example();
  EXPECT_NEAR(item(model.loss(init_params(model.specs(), 1), tokens, targets)), std::log(11), 0.05);
}

TEST(Gpt, DoesNotSeeTheFuture) {
  const Gpt model(tiny_gpt());
  const Params p = golden_params(model, Dtype::kF64);
  const auto [tokens, targets] = golden_example();
  const Tensor changed =
      scatter_set(tokens, vector({4}, Dtype::kI32), full({2, 1}, 9, Dtype::kI32), 1);
  const Tensor before = model(p, tokens);
  const Tensor after = model(p, changed);
  expect_equal(slice(after, 1, 0, 4), slice(before, 1, 0, 4));
  EXPECT_GT(std::abs(item(select(select(select(after - before, 0, 0), 0, 4), 0, 0))), 1e-3);
}

TEST(Gpt, UntiedHeadHasItsOwnWeight) {
  GptConfig config = tiny_gpt();
  config.tie_embeddings = false;
  const auto specs = Gpt(config).specs();
  EXPECT_EQ(specs.back().name, "lm_head.weight");
  EXPECT_EQ(specs.back().type.shape, (Shape{11, 12}));
  EXPECT_EQ(specs.size(), Gpt(tiny_gpt()).specs().size() + 1);
}

class GptDropout : public ::testing::Test {
 protected:
  GptDropout() : context_(current_context()), scope_(context_) { context_.training = true; }

  static GptConfig config(const DropoutConfig& dropout) {
    GptConfig config = tiny_gpt();
    config.dropout = dropout;
    return config;
  }
  static Tensor logits(const GptConfig& config, uint64_t seed,
                       Recompute recompute = Recompute::kNone) {
    const Gpt model(config, recompute);
    const RandomScope random(rng_key(seed));
    return model(golden_params(model, Dtype::kF64), golden_example().tokens);
  }

  Context context_;
  ContextScope scope_;
};

TEST_F(GptDropout, ActsAtEachOfItsSites) {
  const std::vector<double> without = to_doubles(logits(config({}), 1));
  for (const DropoutConfig& dropout :
       {DropoutConfig{0.5, 0, 0}, DropoutConfig{0, 0.5, 0}, DropoutConfig{0, 0, 0.5}}) {
    EXPECT_NE(to_doubles(logits(config(dropout), 1)), without);
    EXPECT_NE(to_doubles(logits(config(dropout), 1)), to_doubles(logits(config(dropout), 2)));
    expect_equal(logits(config(dropout), 1), logits(config(dropout), 1));
  }
}

TEST_F(GptDropout, DrawsTheSameWhenRecomputed) {
  const GptConfig dropped = config({0.3, 0.3, 0.3});
  expect_equal(logits(dropped, 3, Recompute::kFull), logits(dropped, 3));
  const auto gradients = [&](Recompute recompute) {
    const Gpt model(dropped, recompute);
    const auto loss = [&](const Params& p, const Tensor& key) {
      const RandomScope random(key);
      const auto [tokens, targets] = golden_example();
      return model.loss(p, tokens, targets);
    };
    return flatten_tree(jit(grad(loss))(golden_params(model, Dtype::kF64), rng_key(3)));
  };
  const Tensors expected = gradients(Recompute::kNone);
  for (Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    const Tensors actual = gradients(recompute);
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_near(actual[i], expected[i]);
    }
  }
}

TEST(Gpt, RefusesWhatCannotBe) {
  GptConfig config = tiny_gpt();
  config.num_attention_heads = 5;
  EXPECT_THAT([&] { Gpt{config}; },
              ThrowsMessage<ConfigError>(HasSubstr("model.num_attention_heads: 5 heads do not")));
  config = tiny_gpt();
  config.vocab_size = {};
  EXPECT_THAT([&] { Gpt{config}; }, ThrowsMessage<ConfigError>(HasSubstr("model.vocab_size")));
  const Gpt model(tiny_gpt());
  const Params p = golden_params(model, Dtype::kF32);
  EXPECT_THAT(
      [&] {
        model(p, full({1, 9}, 0, Dtype::kI32));
      },
      ThrowsMessage<Error>(
          HasSubstr("a sequence of 9 tokens is longer than model.max_position_embeddings 8")));
}

}  // namespace
}  // namespace mstrain::gpt
