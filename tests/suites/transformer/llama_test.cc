#include "suites/transformer/llama/model.h"

#include "core/nn/random_scope.h"
#include "core/ops/index.h"
#include "core/runtime/context.h"
#include "suites/transformer/llama/hf_names.h"
#include "suites/transformer/text/generate.h"
#include "tests/core/transform/support.h"
#include "tests/suites/transformer/golden_model.h"

namespace mstrain::llama {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<golden::Case>& cases() {
  static const golden::File kFile = golden::read_file("llama_hf");
  return kFile.cases;
}

// For a model with the parameters of the first case.
Params golden_params(const Llama& model, Dtype dtype) {
  return golden::params(model.specs(), cases().front(), dtype);
}

struct Example {
  Tensor tokens, targets;
};
Example golden_example() {
  std::vector<int32_t> targets;
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 6; ++t) {
      targets.push_back(b == 0 && t == 2 ? -100 : (5 * b + 4 * t + 1) % 11);
    }
  }
  return {golden::tokens(), tensor<int32_t>(targets, {2, 6})};
}

Llama golden_model(const golden::Case& expected, Recompute recompute = Recompute::kNone) {
  return Llama(config_from_hf(expected.config, "config.json"), recompute);
}

void expect_golden(const golden::Case& expected, Dtype dtype, double tolerance,
                   Recompute recompute = Recompute::kNone) {
  SCOPED_TRACE(expected.name);
  const Llama model = golden_model(expected, recompute);
  const Params p = golden::params(model.specs(), expected, dtype);
  const auto [tokens, targets] = golden_example();
  const std::vector<double> logits = to_doubles(model(p, tokens));
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    EXPECT_NEAR(logits[logits.size() - 11 + i], expected.logits[i], tolerance);
  }
  const auto loss = [&model](const Params& p, const Tensor& x, const Tensor& y) {
    return model.loss(p, x, y);
  };
  const auto eager = value_and_grad(loss)(p, tokens, targets);
  const auto compiled = jit(value_and_grad(loss))(p, tokens, targets);
  for (const auto& [value, grads] : {eager, compiled}) {
    EXPECT_NEAR(item(value), expected.loss, tolerance);
    golden::expect_gradients(grads, expected, {.absolute = 1e-12, .relative = tolerance});
  }
}

// Hugging Face makes the angles in f32, which moves the last digits of these.
constexpr double kAngles = 2e-6;

TEST(Llama, EqualsHuggingFacesImplementations) {
  for (const golden::Case& expected : cases()) {
    expect_golden(expected, Dtype::kF64, kAngles);
    expect_golden(expected, Dtype::kF32, 1e-4);
  }
}

TEST(Llama, RecomputedEqualsHuggingFacesImplementations) {
  for (const golden::Case& expected : cases()) {
    expect_golden(expected, Dtype::kF64, kAngles, Recompute::kFull);
    expect_golden(expected, Dtype::kF64, kAngles, Recompute::kSelective);
  }
}

TEST(Llama, WritesWhatHuggingFaceWrites) {
  for (const golden::Case& expected : cases()) {
    const auto model = std::make_shared<const Llama>(golden_model(expected));
    Decoder decoder(model, Execution::kGraph);
    const std::vector<int32_t> tokens = to_vector<int32_t>(golden_example().tokens);
    const std::vector<int32_t> prompt(tokens.begin() + 6, tokens.begin() + 11);
    const auto expected_ids = expected.rest.at("written").get<std::vector<int32_t>>();
    const auto count = static_cast<int64_t>(expected_ids.size());
    const auto written =
        continue_tokens(decoder, golden::params(model->specs(), expected, Dtype::kF32),
                        std::span(&prompt, 1), {count, {.greedy = true}, {}}, model->vocab_size());
    EXPECT_EQ(written.at(0), expected_ids) << expected.name;
  }
}

LlamaConfig tiny_llama() { return golden_model(cases().front()).config(); }

int64_t parameter_count(const LlamaConfig& config) {
  int64_t count = 0;
  for (const ParamSpec& spec : Llama(config).specs()) {
    count += spec.type.elements();
  }
  return count;
}

TEST(Llama, HasThePublishedNumbersOfParameters) {
  LlamaConfig llama2;
  llama2.vocab_size = 32000;
  llama2.hidden_size = 4096;
  llama2.num_layers = 32;
  llama2.num_attention_heads = 32;
  llama2.ffn_hidden_size = 11008;
  EXPECT_EQ(parameter_count(llama2), 6738415616);

  LlamaConfig llama3 = llama2;
  llama3.vocab_size = 128256;
  llama3.num_key_value_heads = 8;
  llama3.ffn_hidden_size = 14336;
  EXPECT_EQ(parameter_count(llama3), 8030261248);

  LlamaConfig llama3_1b = llama3;  // Llama 3.2 1B
  llama3_1b.hidden_size = 2048;
  llama3_1b.num_layers = 16;
  llama3_1b.ffn_hidden_size = 8192;
  llama3_1b.tie_embeddings = true;
  EXPECT_EQ(parameter_count(llama3_1b), 1235814400);

  LlamaConfig mistral = llama3;  // 7B
  mistral.vocab_size = 32000;
  mistral.sliding_window = 4096;
  EXPECT_EQ(parameter_count(mistral), 7241732096);

  LlamaConfig qwen;  // Qwen2.5 0.5B
  qwen.vocab_size = 151936;
  qwen.hidden_size = 896;
  qwen.num_layers = 24;
  qwen.num_attention_heads = 14;
  qwen.num_key_value_heads = 2;
  qwen.ffn_hidden_size = 4864;
  qwen.attention_bias = AttentionBias::kQkv;
  qwen.tie_embeddings = true;
  EXPECT_EQ(parameter_count(qwen), 494032768);

  LlamaConfig qwen3;  // 0.6B
  qwen3.vocab_size = 151936;
  qwen3.hidden_size = 1024;
  qwen3.num_layers = 28;
  qwen3.num_attention_heads = 16;
  qwen3.num_key_value_heads = 8;
  qwen3.head_dim = 128;
  qwen3.ffn_hidden_size = 3072;
  qwen3.qk_norm = true;
  qwen3.tie_embeddings = true;
  EXPECT_EQ(parameter_count(qwen3), 596049920);
}

TEST(Llama, MlpIsEightThirdsAsWideInWholeBlocksWhereNothingElseIsSaid) {
  LlamaConfig config;
  config.hidden_size = 4096;
  EXPECT_EQ(config.ffn_dim(), 11008);
  config.hidden_size = 768;
  EXPECT_EQ(config.ffn_dim(), 2048);
}

TEST(Llama, DecaysMatricesOnlyAndShrinksResidualWeights) {
  LlamaConfig config = tiny_llama();
  config.attention_bias = AttentionBias::kAll;
  config.mlp_bias = true;
  for (const ParamSpec& spec : Llama(config).specs()) {
    const bool matrix =
        spec.name.ends_with("weight") && spec.name.find("norm") == std::string::npos;
    const bool residual = spec.name.find("o_proj") != std::string::npos ||
                          spec.name.find("down_proj") != std::string::npos;
    EXPECT_EQ(spec.decay, matrix) << spec.name;
    if (matrix) {
      EXPECT_DOUBLE_EQ(spec.init.scale, residual ? 0.02 / std::sqrt(4.0) : 0.02) << spec.name;
    }
  }
}

TEST(Llama, StartsNearTheEntropyOfItsVocabulary) {
  const Llama model(tiny_llama());
  const auto [tokens, targets] = golden_example();
  EXPECT_NEAR(item(model.loss(init_params(model.specs(), 1), tokens, targets)), std::log(11), 0.05);
}

// The tokens of sample 0 with another one at `place`.
Tensor changed_at(const Tensor& tokens, double place) {
  return scatter_set(tokens, vector({place}, Dtype::kI32), full({2, 1}, 9, Dtype::kI32), 1);
}

TEST(Llama, DoesNotSeeTheFuture) {
  const Llama model(tiny_llama());
  const Params p = golden_params(model, Dtype::kF64);
  const Tensor tokens = golden_example().tokens;
  const Tensor before = model(p, tokens);
  const Tensor after = model(p, changed_at(tokens, 4));
  expect_equal(slice(after, 1, 0, 4), slice(before, 1, 0, 4));
  EXPECT_GT(item(max(abs(after - before))), 1e-3);
}

TEST(Llama, SeesThroughItsLayersAsFarAsTheirWindowsReach) {
  LlamaConfig config = tiny_llama();
  config.sliding_window = 2;  // two layers: tokens at most two places back
  const Llama model(config);
  const Params p = golden_params(model, Dtype::kF64);
  const Tensor tokens = golden_example().tokens;
  const Tensor difference = abs(model(p, changed_at(tokens, 1)) - model(p, tokens));
  EXPECT_EQ(item(max(slice(difference, 1, 4, 6))), 0);
  EXPECT_GT(item(max(slice(difference, 1, 3, 4))), 1e-6);
}

TEST(Llama, IsTheSameAtPositionsFurtherOn) {
  const Llama model(tiny_llama());
  const Params p = golden_params(model, Dtype::kF64);
  const Tensor tokens = golden_example().tokens;
  const Tensor further = iota({2, 6}, 1, Dtype::kI32) + 7;
  expect_near(model(p, tokens, {.positions_bt = further}), model(p, tokens), 1e-9);
}

TEST(Llama, DropsOutAttentionInTrainingOnly) {
  LlamaConfig config = tiny_llama();
  config.dropout.attention = 0.5;
  const Llama model(config);
  const Params p = golden_params(model, Dtype::kF64);
  const Tensor tokens = golden_example().tokens;
  const Tensor without = Llama(tiny_llama())(p, tokens);
  expect_equal(model(p, tokens), without);
  Context context = current_context();
  context.training = true;
  const ContextScope scope(context);
  const RandomScope random(rng_key(1));
  EXPECT_GT(item(max(abs(model(p, tokens) - without))), 1e-3);
}

TEST(Llama, RefusesWhatCannotBe) {
  const auto expect_refused = [](const char* message, const auto& change) {
    LlamaConfig config = tiny_llama();
    change(config);
    EXPECT_THAT([&] { Llama{config}; }, ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  expect_refused("model.num_attention_heads: 5 heads do not divide hidden_size 12",
                 [](LlamaConfig& c) { c.num_attention_heads = 5; });
  expect_refused("model.num_key_value_heads: 2 heads of keys do not divide 3 of queries",
                 [](LlamaConfig& c) { c.num_key_value_heads = 2; });
  expect_refused("model.head_dim: heads are 5 wide", [](LlamaConfig& c) { c.head_dim = 5; });
  expect_refused("model.full_attention_layers: means nothing without model.sliding_window",
                 [](LlamaConfig& c) { c.full_attention_layers = 1; });
  expect_refused("model.rope.factor: means nothing to the type default",
                 [](LlamaConfig& c) { c.rope.factor = 2; });
  expect_refused("model.attention_bias: no family", [](LlamaConfig& c) {
    c.attention_bias = AttentionBias::kAll;
    c.sliding_window = 4;
  });
  expect_refused("model.vocab_size", [](LlamaConfig& c) { c.vocab_size = {}; });
}

}  // namespace
}  // namespace mstrain::llama
