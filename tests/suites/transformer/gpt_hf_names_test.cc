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

GptConfig one_layer() {
  GptConfig config;
  config.vocab_size = 11;
  config.hidden_size = 12;
  config.num_layers = 1;
  config.num_attention_heads = 3;
  config.max_position_embeddings = 8;
  config.head = HeadType::kNextToken;
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
  const GptConfig config = one_layer();
  for (const ParamSpec& spec : Gpt(config).specs()) {
    actual[spec.name] = hf_shape(config, spec.name, spec.type.shape);
  }
  EXPECT_EQ(actual, expected);
}

TEST(GptHfNames, LogicalDimsKeepHeadsApart) {
  for (const ParamSpec& spec : Gpt(one_layer()).specs()) {
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
  GptConfig config = one_layer();
  config.ffn_hidden_size = 20;
  config.activation = Activation::kSilu;
  config.scale_attn_weights = false;
  config.scale_attn_by_inverse_layer_idx = true;
  config.norm.eps = 1e-6;
  config.dropout = {0.1, 0.2, 0.3};
  config.tie_embeddings = false;
  config.init.std = 0.01;
  for (const GptConfig& each : {one_layer(), config}) {
    const Json json = Json::parse(hf_config(each).dump());
    EXPECT_EQ(to_yaml(write_config(config_from_hf(json, "config.json"))),
              to_yaml(write_config(each)));
  }
}

TEST(GptHfNames, ReadsAFileWithDefaultsLeftOut) {
  const Json json = Json::parse(R"({"model_type": "gpt2", "n_inner": null})");
  const GptConfig config = config_from_hf(json, "config.json");
  EXPECT_EQ(config.vocab_size.value, 50257);
  EXPECT_EQ(config.max_position_embeddings, 1024);
  EXPECT_EQ(config.num_layers, 12);
  EXPECT_EQ(config.head_dim(), 64);
  EXPECT_EQ(config.ffn_dim(), 3072);
  EXPECT_EQ(config.activation, Activation::kGeluNew);
  EXPECT_EQ(config.dropout.hidden, 0.1);
  EXPECT_TRUE(config.tie_embeddings);
}

TEST(GptHfNames, KnowsTheOtherNamesOfKeysAndActivations) {
  const Json json = Json::parse(R"({"model_type": "gpt2", "hidden_size": 48, "num_hidden_layers": 3,
      "num_attention_heads": 4, "max_position_embeddings": 9})");
  const GptConfig config = config_from_hf(json, "config.json");
  EXPECT_EQ(config.hidden_size, 48);
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.max_position_embeddings, 9);
  const std::pair<const char*, Activation> kNames[] = {{"gelu_pytorch_tanh", Activation::kGeluNew},
                                                       {"gelu_fast", Activation::kGeluNew},
                                                       {"gelu_accurate", Activation::kGeluNew},
                                                       {"gelu_python", Activation::kGelu},
                                                       {"swish", Activation::kSilu},
                                                       {"tanh", Activation::kTanh}};
  for (const auto& [name, activation] : kNames) {
    Json named = json;
    named["activation_function"] = name;
    EXPECT_EQ(config_from_hf(named, "config.json").activation, activation) << name;
  }
}

TEST(GptHfNames, ScalesScoresAsTheOptionsSay) {
  GptConfig config = one_layer();
  EXPECT_EQ(config.attention_scale(3), 0.5);
  config.scale_attn_by_inverse_layer_idx = true;
  EXPECT_EQ(config.attention_scale(3), 0.125);
  config.scale_attn_weights = false;
  EXPECT_EQ(config.attention_scale(3), 0.25);
}

TEST(GptHfNames, TakesOverWhatChangesNoNumbers) {
  const Json source = Json::parse(R"({"eos_token_id": 7, "bos_token_id": 3, "summary_type": "mean",
      "n_embd": 999, "hidden_size": 999, "_name_or_path": "/home/me", "torch_dtype": "float16",
      "reorder_and_upcast_attn": true, "transformers_version": "4.0"})");
  const OrderedJson json = hf_config(one_layer(), source);
  EXPECT_EQ(json["eos_token_id"], 7);
  EXPECT_EQ(json["bos_token_id"], 3);
  EXPECT_EQ(json["summary_type"], "mean");
  EXPECT_EQ(json["n_embd"], 12);
  EXPECT_EQ(json["reorder_and_upcast_attn"], true);
  for (const char* key : {"hidden_size", "_name_or_path", "torch_dtype", "transformers_version"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
}

TEST(GptHfNames, KnowsWhatATensorIs) {
  using Kind = StoredMeaning::Kind;
  const auto expect = [](const char* stored, bool tied, Kind kind, const char* name) {
    const StoredMeaning is = hf_meaning(GptConfig{.tie_embeddings = tied}, stored);
    EXPECT_EQ(is.kind, kind) << stored;
    EXPECT_EQ(is.name, name) << stored;
  };
  expect("wte.weight", true, Kind::kParameter, "transformer.wte.weight");
  expect("transformer.h.3.ln_1.bias", true, Kind::kParameter, "transformer.h.3.ln_1.bias");
  expect("lm_head.weight", true, Kind::kCopy, "transformer.wte.weight");
  expect("lm_head.weight", false, Kind::kParameter, "lm_head.weight");
  expect("h.11.attn.bias", true, Kind::kBuffer, "");
  expect("transformer.h.0.attn.masked_bias", true, Kind::kBuffer, "");
  expect("h.x.attn.bias", true, Kind::kParameter, "transformer.h.x.attn.bias");
  expect("h.1.attn.c_attn.bias", true, Kind::kParameter, "transformer.h.1.attn.c_attn.bias");
}

TEST(GptHfNames, RefusesAnotherModelByNameOfTheKey) {
  const Json good = Json::parse(hf_config(one_layer()).dump());
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
  expect_refused("n_embd", 1 << 28, "n_embd is 268435456, not a positive integer below 2^28");
  expect_refused("activation_function", "gelu_nwe",
                 "activation_function gelu_nwe is unknown; did you mean gelu_new?");
  expect_refused(
      "activation_function", "softplus",
      "activation_function softplus is unknown; known are gelu, gelu_new, relu, silu, tanh");
  expect_refused("add_cross_attention", true, "add_cross_attention is true");
  expect_refused(
      "quantization_config", {{"bits", 8}},
      "quantization_config is not supported; take the model's full weights, which model.lora.base");
  expect_refused("pruned_heads", {{"0", {1}}}, "pruned_heads is not supported");
  expect_refused("reorder_and_upcast_attn", "no", "reorder_and_upcast_attn is \"no\"");
  expect_refused("scale_attn_weights", 1, "scale_attn_weights is 1, not true or false");
  expect_refused("layer_norm_epsilon", 0, "layer_norm_epsilon is 0, not above 0");
  expect_refused("activation_function", 3, "activation_function is 3");
  expect_refused("attn_pdrop", 1.5, "attn_pdrop is 1.5, not in [0, 1)");
  expect_refused("layer_norm_epsilon", "x", "layer_norm_epsilon is \"x\"");
  expect_refused("tie_word_embeddings", 1, "tie_word_embeddings is 1");
  Json missing = good;
  missing.erase("model_type");
  EXPECT_THAT([&] { config_from_hf(missing, "m/config.json"); },
              ThrowsMessage<Error>(HasSubstr("m/config.json: model_type is missing")));
  EXPECT_THROW(config_from_hf(Json::array(), "m/config.json"), Error);
}

// Values of every kind in every place: an Error or a configuration, nothing else.
TEST(GptHfNames, SurvivesArbitraryValues) {
  Rng rng(5);
  const Json good = Json::parse(hf_config(one_layer()).dump());
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
