#include "suites/transformer/llama/hf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/base/rng.h"
#include "suites/transformer/llama/model.h"
#include "tests/suites/transformer/golden_model.h"

namespace mstrain::llama {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

LlamaConfig one_layer() {
  LlamaConfig config;
  config.vocab_size = 11;
  config.hidden_size = 12;
  config.num_layers = 1;
  config.num_attention_heads = 3;
  config.num_key_value_heads = 1;
  config.head_dim = 6;
  config.ffn_hidden_size = 20;
  config.max_position_embeddings = 8;
  config.head = HeadType::kNextToken;
  return config;
}

std::string text_of(const LlamaConfig& config) { return to_yaml(write_config(config)); }

// Names and shapes as LlamaForCausalLM of transformers 5.23 lists them for this configuration.
TEST(LlamaHfNames, ShapesAreTheTwoDimensionalOnes) {
  LlamaConfig config = one_layer();
  config.attention_bias = AttentionBias::kAll;
  config.mlp_bias = true;
  const std::map<std::string, Shape> expected{
      {"model.embed_tokens.weight", {11, 12}},
      {"model.layers.0.self_attn.q_proj.weight", {18, 12}},
      {"model.layers.0.self_attn.q_proj.bias", {18}},
      {"model.layers.0.self_attn.k_proj.weight", {6, 12}},
      {"model.layers.0.self_attn.k_proj.bias", {6}},
      {"model.layers.0.self_attn.v_proj.weight", {6, 12}},
      {"model.layers.0.self_attn.v_proj.bias", {6}},
      {"model.layers.0.self_attn.o_proj.weight", {12, 18}},
      {"model.layers.0.self_attn.o_proj.bias", {12}},
      {"model.layers.0.mlp.gate_proj.weight", {20, 12}},
      {"model.layers.0.mlp.gate_proj.bias", {20}},
      {"model.layers.0.mlp.up_proj.weight", {20, 12}},
      {"model.layers.0.mlp.up_proj.bias", {20}},
      {"model.layers.0.mlp.down_proj.weight", {12, 20}},
      {"model.layers.0.mlp.down_proj.bias", {12}},
      {"model.layers.0.input_layernorm.weight", {12}},
      {"model.layers.0.post_attention_layernorm.weight", {12}},
      {"model.norm.weight", {12}},
      {"lm_head.weight", {11, 12}},
  };
  std::map<std::string, Shape> actual;
  for (const ParamSpec& spec : Llama(config).specs()) {
    actual[spec.name] = hf_shape(config, spec.name, spec.type.shape);
  }
  EXPECT_EQ(actual, expected);
}

TEST(LlamaHfNames, ConfigurationReadsBack) {
  std::vector<LlamaConfig> configs(7, one_layer());
  configs[1].attention_bias = AttentionBias::kAll;
  configs[1].mlp_bias = true;
  configs[1].tie_embeddings = true;
  configs[1].rope = {.type = RopeType::kLinear, .theta = 5e5, .factor = 2};
  configs[2].sliding_window = 4;
  configs[2].rope = {.type = RopeType::kDynamic, .factor = 3};
  configs[2].dropout.attention = 0.25;
  configs[3].attention_bias = AttentionBias::kQkv;
  configs[3].activation = Activation::kGeluNew;
  configs[4].attention_bias = AttentionBias::kQkv;
  configs[4].num_layers = 3;
  configs[4].sliding_window = 5;
  configs[4].full_attention_layers = 2;
  configs[4].rope = {.type = RopeType::kLlama3,
                     .factor = 8,
                     .original_max_position_embeddings = 4,
                     .low_freq_factor = 2,
                     .high_freq_factor = 3};
  configs[5].init.std = 0.01;
  configs[5].norm.eps = 1e-6;
  configs[5].rope = {.type = RopeType::kYarn,
                     .factor = 4,
                     .original_max_position_embeddings = 2,
                     .beta_fast = 20,
                     .beta_slow = 2,
                     .truncate = false,
                     .attention_factor = 1.5,
                     .mscale = 0.5,
                     .mscale_all_dim = 0.25};
  configs[6].qk_norm = true;
  configs[6].attention_bias = AttentionBias::kAll;
  configs[6].sliding_window = 5;
  for (const LlamaConfig& config : configs) {
    const Json json = Json::parse(hf_config(config).dump());
    EXPECT_EQ(text_of(config_from_hf(json, "config.json")), text_of(config));
  }
}

TEST(LlamaHfNames, FamiliesAreThoseWhoseClassCanBeTheNetwork) {
  LlamaConfig config = one_layer();
  EXPECT_THAT(families_of(config), ElementsAre("llama", "mistral"));
  config.sliding_window = 4;
  EXPECT_THAT(families_of(config), ElementsAre("mistral"));
  config.attention_bias = AttentionBias::kQkv;
  EXPECT_THAT(families_of(config), ElementsAre("qwen2"));
  config.mlp_bias = true;
  EXPECT_THAT(families_of(config), IsEmpty());
  config.sliding_window.reset();
  config.attention_bias = AttentionBias::kNone;
  EXPECT_THAT(families_of(config), ElementsAre("llama"));
  config.qk_norm = true;
  EXPECT_THAT(families_of(config), IsEmpty());
  config.mlp_bias = false;
  EXPECT_THAT(families_of(config), ElementsAre("qwen3"));
  config.attention_bias = AttentionBias::kQkv;
  EXPECT_THAT(families_of(config), IsEmpty());
}

TEST(LlamaHfNames, AModelStaysInTheFamilyThatItCameFrom) {
  const LlamaConfig config = one_layer();
  EXPECT_EQ(hf_config(config)["model_type"], "llama");
  const OrderedJson mistral = hf_config(config, {{"model_type", "mistral"}, {"eos_token_id", 7}});
  EXPECT_EQ(mistral["model_type"], "mistral");
  EXPECT_EQ(mistral["architectures"], OrderedJson({"MistralForCausalLM"}));
  EXPECT_TRUE(mistral["sliding_window"].is_null());
  EXPECT_EQ(mistral["eos_token_id"], 7);
  EXPECT_EQ(hf_config(config, {{"model_type", "qwen2"}})["model_type"], "llama");
}

TEST(LlamaHfNames, OldKeysOfRotaryPositionsAreReplaced) {
  const Json source = Json::parse(
      R"({"model_type": "llama", "rope_theta": 3.0, "rope_scaling": {"type": "linear", "factor": 2.0},
          "pretraining_tp": 1, "note": "mine"})");
  const OrderedJson json = hf_config(one_layer(), source);
  EXPECT_FALSE(json.contains("rope_theta"));
  EXPECT_FALSE(json.contains("rope_scaling"));
  EXPECT_EQ(json["note"], "mine");
}

TEST(LlamaHfNames, ReadsFilesWithDefaultsLeftOut) {
  const auto read = [](const char* text) {
    return config_from_hf(Json::parse(text), "config.json");
  };
  const LlamaConfig llama = read(R"({"model_type": "llama"})");
  EXPECT_EQ(llama.vocab_size.value, 32000);
  EXPECT_EQ(llama.ffn_dim(), 11008);
  EXPECT_EQ(llama.key_value_heads(), 32);
  EXPECT_EQ(llama.rope.theta, 10000);
  EXPECT_EQ(llama.norm.eps, 1e-6);
  const LlamaConfig mistral = read(R"({"model_type": "mistral"})");
  EXPECT_EQ(mistral.key_value_heads(), 8);
  EXPECT_EQ(mistral.sliding_window, 4096);
  EXPECT_FALSE(read(R"({"model_type": "mistral", "sliding_window": null})").sliding_window);
  const LlamaConfig qwen = read(R"({"model_type": "qwen2"})");
  EXPECT_EQ(qwen.attention_bias, AttentionBias::kQkv);
  EXPECT_FALSE(qwen.sliding_window);
  const LlamaConfig windowed = read(R"({"model_type": "qwen2", "use_sliding_window": true})");
  EXPECT_EQ(windowed.sliding_window, 4096);
  EXPECT_EQ(windowed.full_attention_layers, 28);
  EXPECT_FALSE(
      read(R"({"model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 32})")
          .sliding_window);
  const LlamaConfig qwen3 = read(R"({"model_type": "qwen3"})");
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_width(), 128);
  EXPECT_EQ(qwen3.attention_bias, AttentionBias::kNone);
}

TEST(LlamaHfNames, KnowsBothFormsOfRotaryPositions) {
  const auto rope = [](const char* text) {
    Json json = Json::parse(text);
    json["model_type"] = "llama";
    return config_from_hf(json, "config.json").rope;
  };
  EXPECT_EQ(rope(R"({"rope_theta": 500000.0})").theta, 500000);
  EXPECT_EQ(rope(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}})").theta, 7);
  const RopeConfig linear =
      rope(R"({"rope_theta": 9.0, "rope_scaling": {"type": "linear", "factor": 4}})");
  EXPECT_EQ(linear.type, RopeType::kLinear);
  EXPECT_EQ(linear.theta, 9);
  EXPECT_EQ(linear.factor, 4);
  // The factor of yarn is the ratio of the lengths where it is not given.
  const RopeConfig yarn = rope(
      R"({"max_position_embeddings": 64, "rope_scaling": {"rope_type": "yarn", "factor": null,
          "original_max_position_embeddings": 16}})");
  EXPECT_EQ(yarn.factor, 4);
  // A key of another type changes nothing.
  EXPECT_EQ(rope(R"({"rope_scaling": {"rope_type": "default", "factor": 2.0}})").factor, 1);
}

TEST(LlamaHfNames, KnowsWhatATensorIs) {
  using Kind = StoredMeaning::Kind;
  const LlamaConfig tied{.tie_embeddings = true};
  const LlamaConfig untied{.tie_embeddings = false};
  EXPECT_EQ(hf_meaning(tied, "model.norm.weight").kind, Kind::kParameter);
  EXPECT_EQ(hf_meaning(tied, "lm_head.weight").kind, Kind::kCopy);
  EXPECT_EQ(hf_meaning(tied, "lm_head.weight").name, "model.embed_tokens.weight");
  EXPECT_EQ(hf_meaning(untied, "lm_head.weight").kind, Kind::kParameter);
  EXPECT_EQ(hf_meaning(untied, "model.layers.0.self_attn.rotary_emb.inv_freq").kind, Kind::kBuffer);
}

TEST(LlamaHfNames, RefusesAnotherModelByNameOfTheKey) {
  const Json good = Json::parse(hf_config(one_layer()).dump());
  const auto expect_refused = [&](const char* key, Json value, const char* message) {
    Json json = good;
    json[key] = std::move(value);
    EXPECT_THAT([&] { config_from_hf(json, "m/config.json"); },
                ThrowsMessage<Error>(HasSubstr(message)))
        << key;
  };
  const auto rope = [](const char* text) { return Json::parse(text); };
  expect_refused("model_type", "gemma",
                 "m/config.json: model_type is gemma, none of llama, mistral, qwen2, qwen3");
  expect_refused("num_attention_heads", "12", "num_attention_heads is \"12\"");
  expect_refused("num_key_value_heads", 2, "2 heads of keys do not divide 3 of queries");
  expect_refused("head_dim", 5, "heads are 5 wide");
  expect_refused("quantization_config", {{"bits", 8}}, "quantization_config is not supported");
  expect_refused("logit_scale", 2.0, "logit_scale is unknown");
  expect_refused("sliding_window", 8, "sliding_window is unknown");  // a Llama has none
  expect_refused("rope_parameters", rope(R"({"rope_type": "longrope"})"),
                 "m/config.json: rope_parameters: rope_type longrope is unknown");
  expect_refused("rope_parameters", rope(R"({"rope_type": "linear"})"), "factor is missing");
  expect_refused("rope_parameters", rope(R"({"rope_type": "linear", "factor": 0.5})"),
                 "factor is 0.5, not at least 1");
  expect_refused("rope_parameters", rope(R"({"rope_type": "llama3", "factor": 2})"),
                 "llama3 needs low_freq_factor and high_freq_factor");
  expect_refused("rope_parameters", rope(R"({"rope_type": "default", "mrope_section": [1, 2]})"),
                 "mrope_section is unknown");
  expect_refused("rope_parameters",
                 rope(R"({"rope_type": "default", "partial_rotary_factor": 0.5})"),
                 "partial_rotary_factor is not supported");
  expect_refused("rope_parameters", "default", "is \"default\", not a map with rope_type");
  expect_refused("rope_parameters", rope(R"({"rope_type": "linaer"})"), "; did you mean linear?");
  expect_refused("rope_parameters", rope(R"({"rope_type": "linear", "factr": 2.0})"),
                 "factr is unknown and might change what the model computes; did you mean factor?");
}

TEST(LlamaHfNames, RefusesLayersThatSlideHereAndThere) {
  Json json =
      Json::parse(R"({"model_type": "qwen2", "num_hidden_layers": 2, "use_sliding_window": true,
      "layer_types": ["sliding_attention", "full_attention"]})");
  EXPECT_THAT([&] { config_from_hf(json, "c"); },
              ThrowsMessage<Error>(HasSubstr("layer_types[1] is \"full_attention\"")));
  json["layer_types"] = {"full_attention"};
  EXPECT_THAT([&] { config_from_hf(json, "c"); },
              ThrowsMessage<Error>(HasSubstr("layer_types is no list of 2 names")));
  json["layer_types"] = {"full_attention", "sliding_attention"};
  json["use_sliding_window"] = false;
  EXPECT_THAT([&] { config_from_hf(json, "c"); },
              ThrowsMessage<Error>(HasSubstr("but there is no window")));
}

// Values of every kind in every place: an Error or a configuration, nothing else.
TEST(LlamaHfNames, SurvivesArbitraryValues) {
  Rng rng(5);
  const Json values[] = {
      nullptr,         true, -1, 0, 1, 1e300, "gelu", "", Json::array({1}), Json::object(),
      int64_t{1} << 62};
  for (const golden::Case& each : golden::read_file("llama_hf").cases) {
    const Json& good = each.config;
    for (int round = 0; round < 300; ++round) {
      Json json = good;
      for (uint64_t changes = rng.below(3) + 1; changes > 0; --changes) {
        Json* in = &json;
        for (const char* section : {"rope_parameters", "rope_scaling"}) {
          if (rng.below(2) == 0 && in == &json && json.contains(section) &&
              json[section].is_object() && !json[section].empty()) {
            in = &json[section];
          }
        }
        auto item = in->begin();
        std::advance(item, static_cast<int64_t>(rng.below(in->size())));
        *item = values[rng.below(std::size(values))];
      }
      try {
        config_from_hf(json, "config.json");
      } catch (const Error&) {
        continue;
      }
    }
  }
}

}  // namespace
}  // namespace mstrain::llama
