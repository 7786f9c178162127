#include "suites/transformer/gpt/model.h"

#include "core/nn/random_scope.h"
#include "core/ops/index.h"
#include "core/ops/random.h"
#include "core/runtime/context.h"
#include "tests/core/transform/support.h"
#include "tests/golden/gpt_tiny.h"

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

// The weights of tests/golden/gpt_tiny.py.
Params golden_params(const Gpt& model, Dtype dtype) {
  constexpr uint64_t kSeed = 20240601;
  Params p;
  uint64_t stream = 0;
  for (const ParamSpec& spec : model.specs()) {
    const bool is_norm =
        spec.name.find(".ln_") != std::string::npos && spec.name.ends_with("weight");
    std::vector<double> values;
    for (int64_t i = 0; i < spec.type.elements(); ++i) {
      const uint32_t word =
          philox(philox_counter(static_cast<uint64_t>(i), stream), philox_key(kSeed))[0];
      const double centred = 2 * static_cast<double>(word >> 8) * 0x1p-24 - 1;
      values.push_back(is_norm ? 1 + 0.25 * centred : 0.5 * centred);
    }
    p.set(spec.name, cast(tensor<double>(values, spec.type.shape), dtype));
    ++stream;
  }
  return p;
}

struct Example {
  Tensor tokens, targets;
};
Example golden_example() {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 6; ++t) {
      tokens.push_back((7 * b + 3 * t + b * t) % 11);
      targets.push_back(b == 1 && t == 2 ? -100 : (5 * b + 4 * t + 1) % 11);
    }
  }
  return {tensor<int32_t>(tokens, {2, 6}), tensor<int32_t>(targets, {2, 6})};
}

void expect_golden(const Gpt& model, Dtype dtype, double tolerance) {
  const Params p = golden_params(model, dtype);
  const auto [tokens, targets] = golden_example();
  const std::vector<double> logits = to_doubles(model(p, tokens));
  for (size_t i = 0; i < golden::kGptLogits.size(); ++i) {
    EXPECT_NEAR(logits[logits.size() - 11 + i], golden::kGptLogits[i], tolerance);
  }
  const auto loss = [&model](const Params& p, const Tensor& x, const Tensor& y) {
    return model.loss(p, x, y);
  };
  const auto [value, grads] = value_and_grad(loss)(p, tokens, targets);
  const auto [compiled_value, compiled_grads] = jit(value_and_grad(loss))(p, tokens, targets);
  EXPECT_NEAR(item(value), golden::kGptLoss, tolerance);
  EXPECT_NEAR(item(compiled_value), golden::kGptLoss, tolerance);
  ASSERT_EQ(grads.size(), std::size(golden::kGptGradients));
  for (size_t i = 0; i < grads.size(); ++i) {
    const golden::GptGradient& expected = golden::kGptGradients[i];
    ASSERT_EQ(grads.name(i), expected.name);
    for (const Params* mode : {&grads, &compiled_grads}) {
      const std::vector<double> g = to_doubles(mode->tensor(i));
      double squares = 0;
      for (double element : g) {
        squares += element * element;
      }
      EXPECT_NEAR(std::sqrt(squares), expected.norm, tolerance) << expected.name;
      EXPECT_NEAR(g[g.size() / 2], expected.middle, tolerance) << expected.name;
    }
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
