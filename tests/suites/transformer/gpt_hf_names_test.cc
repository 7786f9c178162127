#include "suites/transformer/gpt/hf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/base/rng.h"
#include "suites/transformer/gpt/model.h"

namespace mstrain::gpt {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

GptConfig tiny() {
  GptConfig config;
  config.vocab_size = 11;
  config.hidden_size = 12;
  config.num_layers = 1;
  config.num_attention_heads = 3;
  config.max_position_embeddings = 8;
  return config;
}

// Names and shapes as GPT2LMHeadModel of transformers 5.23 lists them for this configuration.
TEST(GptHfNames, ShapesAreTheTwoDimensionalOnes) {
  const std::map<std::string, Shape> expected{
      {"transformer.wte.weight", {11, 12}},
      {"transformer.wpe.weight", {8, 12}},
      {"transformer.h.0.ln_1.weight", {12}},
      {"transformer.h.0.ln_1.bias", {12}},
      {"transformer.h.0.attn.c_attn.weight", {12, 36}},
      {"transformer.h.0.attn.c_attn.bias", {36}},
      {"transformer.h.0.attn.c_proj.weight", {12, 12}},
      {"transformer.h.0.attn.c_proj.bias", {12}},
      {"transformer.h.0.ln_2.weight", {12}},
      {"transformer.h.0.ln_2.bias", {12}},
      {"transformer.h.0.mlp.c_fc.weight", {12, 48}},
      {"transformer.h.0.mlp.c_fc.bias", {48}},
      {"transformer.h.0.mlp.c_proj.weight", {48, 12}},
      {"transformer.h.0.mlp.c_proj.bias", {12}},
      {"transformer.ln_f.weight", {12}},
      {"transformer.ln_f.bias", {12}},
  };
  std::map<std::string, Shape> actual;
  for (const ParamSpec& spec : Gpt(tiny()).specs()) {
    actual[spec.name] = hf_shape(spec.name, spec.type.shape);
  }
  EXPECT_EQ(actual, expected);
}

TEST(GptHfNames, LogicalDimsKeepHeadsApart) {
  for (const ParamSpec& spec : Gpt(tiny()).specs()) {
    if (spec.name.ends_with("c_attn.weight")) {
      EXPECT_EQ(spec.type.shape, (Shape{12, 3, 3, 4}));
    } else if (spec.name.ends_with("c_attn.bias")) {
      EXPECT_EQ(spec.type.shape, (Shape{3, 3, 4}));
    } else if (spec.name.ends_with("attn.c_proj.weight")) {
      EXPECT_EQ(spec.type.shape, (Shape{3, 4, 12}));
    }
  }
}

TEST(GptHfNames, ConfigurationReadsBack) {
  GptConfig config = tiny();
  config.ffn_hidden_size = 20;
  config.activation = Activation::kSilu;
  config.norm.eps = 1e-6;
  config.dropout = {0.1, 0.2, 0.3};
  config.tie_embeddings = false;
  config.init.std = 0.01;
  for (const GptConfig& each : {tiny(), config}) {
    const Json json = Json::parse(hf_config(each).dump());
    EXPECT_EQ(to_yaml(write_config(config_from_hf(json, "config.json"))),
              to_yaml(write_config(each)));
  }
}

TEST(GptHfNames, ReadsAFileWithDefaultsLeftOut) {
  const Json json =
      Json::parse(R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768,
                                    "n_layer": 12, "n_head": 12, "n_inner": null})");
  const GptConfig config = config_from_hf(json, "config.json");
  EXPECT_EQ(config.ffn_dim(), 3072);
  EXPECT_EQ(config.activation, Activation::kGeluNew);
  EXPECT_EQ(config.dropout.hidden, 0.1);
  EXPECT_TRUE(config.tie_embeddings);
}

TEST(GptHfNames, RefusesAnotherModelByNameOfTheKey) {
  const Json good = Json::parse(hf_config(tiny()).dump());
  const auto expect_refused = [&](const char* key, Json value, const char* message) {
    Json json = good;
    json[key] = std::move(value);
    EXPECT_THAT([&] { config_from_hf(json, "m/config.json"); },
                ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect_refused("model_type", "llama", "m/config.json: model_type is \"llama\", not gpt2");
  expect_refused("n_head", 5, "n_head 5 does not divide n_embd 12");
  expect_refused("n_layer", "12", "n_layer is \"12\", not a positive integer");
  expect_refused("n_embd", -3, "n_embd is -3");
  expect_refused("vocab_size", 1.5, "vocab_size is 1.5");
  expect_refused("activation_function", "tanh", "activation_function tanh is unknown");
  expect_refused("activation_function", 3, "activation_function is 3");
  expect_refused("attn_pdrop", 1.5, "attn_pdrop is 1.5, not in [0, 1)");
  expect_refused("layer_norm_epsilon", "x", "layer_norm_epsilon is \"x\"");
  expect_refused("tie_word_embeddings", 1, "tie_word_embeddings is 1");
  expect_refused("scale_attn_by_inverse_layer_idx", true, "scaled in another way");
  Json missing = good;
  missing.erase("n_positions");
  EXPECT_THAT([&] { config_from_hf(missing, "m/config.json"); },
              ThrowsMessage<Error>(HasSubstr("m/config.json: n_positions is missing")));
  EXPECT_THROW(config_from_hf(Json::array(), "m/config.json"), Error);
}

// Values of every kind in every place: an Error or a configuration, nothing else.
TEST(GptHfNames, SurvivesArbitraryValues) {
  Rng rng(5);
  const Json good = Json::parse(hf_config(tiny()).dump());
  const Json values[] = {
      nullptr,         true, -1, 0, 1, 1e300, "gelu", "", Json::array({1}), Json::object(),
      int64_t{1} << 62};
  for (int round = 0; round < 2000; ++round) {
    Json json = good;
    for (uint64_t changes = rng.below(3) + 1; changes > 0; --changes) {
      auto item = json.begin();
      std::advance(item, static_cast<int64_t>(rng.below(json.size())));
      *item = values[rng.below(std::size(values))];
    }
    try {
      config_from_hf(json, "config.json");
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace mstrain::gpt
