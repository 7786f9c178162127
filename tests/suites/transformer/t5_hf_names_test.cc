#include "suites/transformer/t5/hf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "suites/transformer/t5/model.h"

namespace mstrain::t5 {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

T5Config one_layer() {
  T5Config config;
  config.vocab_size = 11;
  config.hidden_size = 12;
  config.num_layers = 1;
  config.num_attention_heads = 3;
  config.d_kv = 5;
  config.ffn_hidden_size = 20;
  config.pad_token = 0;
  config.eos_token = 1;
  config.decoder_start_token = 0;
  return config;
}

T5Config read(const Json& json, bool has_head = false) {
  return config_from_hf(json, "config.json", [&](const std::string& name) {
    return has_head && name == "lm_head.weight";
  });
}

// Names and shapes as T5ForConditionalGeneration of transformers 5.23 lists them for a gated model with a head of its own.
TEST(T5HfNames, NamesAndShapesAreThoseOfTheFile) {
  const std::map<std::string, Shape> expected{
      {"shared.weight", {11, 12}},
      {"encoder.block.0.layer.0.SelfAttention.q.weight", {15, 12}},
      {"encoder.block.0.layer.0.SelfAttention.k.weight", {15, 12}},
      {"encoder.block.0.layer.0.SelfAttention.v.weight", {15, 12}},
      {"encoder.block.0.layer.0.SelfAttention.o.weight", {12, 15}},
      {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", {32, 3}},
      {"encoder.block.0.layer.0.layer_norm.weight", {12}},
      {"encoder.block.0.layer.1.DenseReluDense.wi_0.weight", {20, 12}},
      {"encoder.block.0.layer.1.DenseReluDense.wi_1.weight", {20, 12}},
      {"encoder.block.0.layer.1.DenseReluDense.wo.weight", {12, 20}},
      {"encoder.block.0.layer.1.layer_norm.weight", {12}},
      {"encoder.final_layer_norm.weight", {12}},
      {"decoder.block.0.layer.0.SelfAttention.q.weight", {15, 12}},
      {"decoder.block.0.layer.0.SelfAttention.k.weight", {15, 12}},
      {"decoder.block.0.layer.0.SelfAttention.v.weight", {15, 12}},
      {"decoder.block.0.layer.0.SelfAttention.o.weight", {12, 15}},
      {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", {32, 3}},
      {"decoder.block.0.layer.0.layer_norm.weight", {12}},
      {"decoder.block.0.layer.1.EncDecAttention.q.weight", {15, 12}},
      {"decoder.block.0.layer.1.EncDecAttention.k.weight", {15, 12}},
      {"decoder.block.0.layer.1.EncDecAttention.v.weight", {15, 12}},
      {"decoder.block.0.layer.1.EncDecAttention.o.weight", {12, 15}},
      {"decoder.block.0.layer.1.layer_norm.weight", {12}},
      {"decoder.block.0.layer.2.DenseReluDense.wi_0.weight", {20, 12}},
      {"decoder.block.0.layer.2.DenseReluDense.wi_1.weight", {20, 12}},
      {"decoder.block.0.layer.2.DenseReluDense.wo.weight", {12, 20}},
      {"decoder.block.0.layer.2.layer_norm.weight", {12}},
      {"decoder.final_layer_norm.weight", {12}},
      {"lm_head.weight", {11, 12}},
  };
  T5Config config = one_layer();
  config.gated = true;
  config.tie_embeddings = false;
  std::map<std::string, Shape> actual;
  for (const ParamSpec& spec : T5(config).specs()) {
    actual[spec.name] = hf_shape(config, spec.name, spec.type.shape);
  }
  EXPECT_EQ(actual, expected);
}

TEST(T5HfNames, ConfigurationReadsBack) {
  T5Config plain = one_layer();
  plain.num_decoder_layers = 1;
  plain.scale_outputs = true;
  T5Config other = plain;
  other.num_decoder_layers = 3;
  other.activation = Activation::kGeluNew;
  other.gated = true;
  other.relative_buckets = 16;
  other.relative_max_distance = 64;
  other.tie_embeddings = false;
  other.scale_outputs = false;
  other.norm.eps = 1e-5;
  other.dropout = 0.2;
  other.init.factor = 0.5;
  other.pad_token = 3;
  other.eos_token = 2;
  other.decoder_start_token = 4;
  T5Config silu = other;
  silu.activation = Activation::kSilu;
  T5Config gelu = plain;
  gelu.activation = Activation::kGelu;
  for (const T5Config& each : {plain, other, silu, gelu}) {
    const Json json = Json::parse(hf_config(each).dump());
    EXPECT_EQ(to_yaml(write_config(read(json, !each.tie_embeddings))), to_yaml(write_config(each)));
  }
  gelu.gated = true;
  EXPECT_THAT([&] { hf_config(gelu); }, ThrowsMessage<Error>(HasSubstr("gated gelu")));
}

// config.json of google-t5/t5-small (version 4), without what it says of tasks.
TEST(T5HfNames, ReadsAFileOfVersion4) {
  const T5Config config = read(Json::parse(R"({"architectures": ["T5ForConditionalGeneration"],
      "d_ff": 2048, "d_kv": 64, "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1,
      "eos_token_id": 1, "initializer_factor": 1.0, "is_encoder_decoder": true,
      "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512, "num_heads": 8,
      "num_layers": 6, "output_past": true, "pad_token_id": 0,
      "relative_attention_num_buckets": 32, "vocab_size": 32128})"));
  EXPECT_TRUE(config.tie_embeddings);
  EXPECT_TRUE(config.scales_outputs());
  EXPECT_FALSE(config.gated);
  EXPECT_EQ(config.decoder_layers(), 6);
  EXPECT_EQ(config.relative_max_distance, 128);
}

TEST(T5HfNames, TellsAHeadOfItsOwnByTheWeightsInVersion5) {
  const Json v5 = Json::parse(R"({"model_type": "t5", "feed_forward_proj": "gated-gelu",
      "dense_act_fn": "gelu_new", "is_gated_act": true, "tie_word_embeddings": true,
      "scale_decoder_outputs": false, "dtype": "float32"})");
  const T5Config own = read(v5, true);
  EXPECT_FALSE(own.tie_embeddings);
  EXPECT_FALSE(own.scales_outputs());
  EXPECT_TRUE(own.gated);
  EXPECT_EQ(own.activation, Activation::kGeluNew);
  EXPECT_TRUE(read(v5, false).tie_embeddings);
  EXPECT_FALSE(read(v5, false).scales_outputs());
  const Json v4 = Json::parse(R"({"model_type": "t5", "tie_word_embeddings": false})");
  EXPECT_FALSE(read(v4, true).tie_embeddings);
  EXPECT_FALSE(read(v4, true).scales_outputs());
  // A copy of the embeddings that version 4 wrote.
  EXPECT_TRUE(read(Json::parse(R"({"model_type": "t5"})"), true).tie_embeddings);
}

TEST(T5HfNames, TakesWhatStandsBesideTheNameOfItsFeedForwardLayers) {
  const T5Config config = read(Json::parse(R"({"model_type": "t5", "feed_forward_proj": "relu",
      "dense_act_fn": "silu", "is_gated_act": true})"));
  EXPECT_EQ(config.activation, Activation::kSilu);
  EXPECT_TRUE(config.gated);
  EXPECT_EQ(hf_config(config)["feed_forward_proj"], "gated-silu");
  EXPECT_THAT([&] { read(Json::parse(R"({"model_type": "t5", "dense_act_fn": "gleu"})")); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("dense_act_fn gleu is unknown")));
}

TEST(T5HfNames, TakesOverWhatChangesNoNumbers) {
  const Json source = Json::parse(R"({"model_type": "t5", "d_model": 999, "hidden_size": 999,
      "task_specific_params": {"x": 1}, "n_positions": 512, "torch_dtype": "float16"})");
  const OrderedJson json = hf_config(one_layer(), source);
  EXPECT_EQ(json["d_model"], 12);
  EXPECT_EQ(json["task_specific_params"], OrderedJson::parse(R"({"x": 1})"));
  for (const char* key : {"hidden_size", "n_positions", "torch_dtype"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
}

TEST(T5HfNames, KnowsWhatATensorIs) {
  using Kind = StoredMeaning::Kind;
  const auto expect = [](const char* stored, bool tied, Kind kind, const char* name) {
    const StoredMeaning is = hf_meaning(T5Config{.tie_embeddings = tied}, stored);
    EXPECT_EQ(is.kind, kind) << stored;
    EXPECT_EQ(is.name, name) << stored;
  };
  expect("shared.weight", true, Kind::kParameter, "shared.weight");
  expect("encoder.embed_tokens.weight", false, Kind::kCopy, "shared.weight");
  expect("decoder.embed_tokens.weight", true, Kind::kCopy, "shared.weight");
  expect("lm_head.weight", true, Kind::kCopy, "shared.weight");
  expect("lm_head.weight", false, Kind::kParameter, "lm_head.weight");
  expect("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", true,
         Kind::kBuffer, "");
}

TEST(T5HfNames, RefusesAnotherModelByNameOfTheKey) {
  const auto expect_refused = [](const char* key, const Json& value, const char* message) {
    Json json = Json::parse(R"({"model_type": "t5"})");
    json[key] = value;
    EXPECT_THAT([&] { read(json); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect_refused("model_type", "mt5x", R"(model_type is "mt5x", not t5)");
  expect_refused("is_encoder_decoder", false, "is_encoder_decoder is false");
  expect_refused("is_decoder", true, "is_decoder is not supported");
  expect_refused("feed_forward_proj", "gated-gelux", "feed_forward_proj gelux is unknown");
  expect_refused("feed_forward_proj", "rely",
                 "feed_forward_proj rely is unknown; did you mean relu?");
  expect_refused("d_modl", 3, "d_modl is unknown and might change what the model computes");
  expect_refused("encoder_no_repeat", "x", "encoder_no_repeat is unknown");
  expect_refused("d_kv", 0, "d_kv is 0");
  expect_refused("dropout_rate", 1, "dropout_rate is 1");
  expect_refused("eos_token_id", 40000, "model.eos_token");
  expect_refused("relative_attention_max_distance", 3, "model.relative_max_distance");
}

TEST(T5HfNames, ReadsAnMt5) {
  const T5Config config = read(Json::parse(R"({"model_type": "mt5"})"), true);
  EXPECT_EQ(config.vocab_size.value, 250112);
  EXPECT_EQ(config.ffn_hidden_size, 1024);
  EXPECT_EQ(config.num_layers, 8);
  EXPECT_EQ(config.num_attention_heads, 6);
  EXPECT_TRUE(config.gated);
  EXPECT_EQ(config.activation, Activation::kGeluNew);
  EXPECT_FALSE(config.tie_embeddings);
  EXPECT_FALSE(config.scales_outputs());
  // Version 5 writes of every mT5 that it is tied.
  EXPECT_FALSE(read(Json::parse(R"({"model_type": "mt5", "tie_word_embeddings": true})"), true)
                   .tie_embeddings);
}

TEST(T5HfNames, SurvivesArbitraryValues) {
  const Json whole = Json::parse(hf_config(one_layer()).dump());
  const Json values[] = {
      nullptr, -1, 0, 1, 1e300, 1LL << 40, "", "x", true, Json::array(), Json::object({{"a", 1}}),
      0.5};
  for (const auto& [key, value] : whole.items()) {
    for (const Json& other : values) {
      Json json = whole;
      json[key] = other;
      try {
        const T5Config config = read(json);
        EXPECT_GT(config.hidden_size, 0);
      } catch (const Error&) {  // says what is wrong
      }
    }
  }
}

}  // namespace
}  // namespace mstrain::t5
