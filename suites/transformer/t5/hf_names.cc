#include "suites/transformer/t5/hf_names.h"

#include "core/base/error.h"
#include "suites/transformer/hf/config_reader.h"

namespace mstrain::t5 {
namespace {

constexpr const char* kShared = "shared.weight";
constexpr const char* kHead = "lm_head.weight";

struct FeedForward {
  Activation activation = Activation::kRelu;
  bool gated = false;
};

// "relu", "gated-gelu", "gated-silu", …
FeedForward named_feed_forward(const hf::ConfigReader& field, std::string_view source,
                               const char* otherwise) {
  const std::string name = field.text("feed_forward_proj", otherwise);
  const std::string where = fmt::format("{}: feed_forward_proj", source);
  constexpr std::string_view kGated = "gated-";
  if (!name.starts_with(kGated)) {
    return {hf::activation_of(name, where), false};
  }
  const std::string inner = name.substr(kGated.size());
  // What T5 v1.1 calls gated-gelu is the approximation by tanh.
  return {inner == "gelu" ? Activation::kGeluNew : hf::activation_of(inner, where), true};
}

// Files say beside it what `transformers` made of the name, and what they say there is what it takes.
FeedForward feed_forward_of(const hf::ConfigReader& field, std::string_view source,
                            const char* otherwise) {
  FeedForward out = named_feed_forward(field, source, otherwise);
  const auto gives = [&](const char* key) {
    const Json* const value = field.find(key);
    return value != nullptr && !value->is_null();
  };
  if (gives("dense_act_fn")) {
    out.activation = field.activation("dense_act_fn", out.activation);
  }
  if (gives("is_gated_act")) {
    out.gated = field.flag("is_gated_act", out.gated);
  }
  return out;
}

std::string feed_forward_name(const T5Config& config) {
  if (!config.gated) {
    return std::string(name_of(config.activation));
  }
  if (config.activation == Activation::kGeluNew) {
    return "gated-gelu";
  }
  check(config.activation != Activation::kGelu,
        "model.activation: Hugging Face's T5 has no name for a gated gelu that is not gelu_new");
  return "gated-" + std::string(name_of(config.activation));
}

// What the classes of Hugging Face have where a file is silent.
struct Defaults {
  int64_t vocab, inner, layers, heads;
  const char* feed_forward;
  bool tied;
};

const Defaults& defaults_of(const hf::ConfigReader& field) {
  static constexpr Defaults kT5{32128, 2048, 6, 8, "relu", true};
  static constexpr Defaults kMt5{250112, 1024, 8, 6, "gated-gelu", false};
  const Json* type = field.find("model_type");
  if (type != nullptr && *type == "mt5") {
    return kMt5;
  }
  field.expect_model_type("t5");
  return kT5;
}

}  // namespace

Shape hf_shape(const T5Config&, std::string_view name, const Shape& shape) {
  for (const char* end : {".q.weight", ".k.weight", ".v.weight"}) {
    if (name.ends_with(end)) {
      return {shape[0] * shape[1], shape[2]};
    }
  }
  return name.ends_with(".o.weight") ? Shape{shape[0], shape[1] * shape[2]} : shape;
}

std::vector<std::string> hf_copies(const T5Config& config) {
  std::vector<std::string> out{"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
  if (config.tie_embeddings) {
    out.emplace_back(kHead);
  }
  return out;
}

StoredMeaning hf_meaning(const T5Config& config, const std::string& stored) {
  using Kind = StoredMeaning::Kind;
  const std::vector<std::string> copies = hf_copies(config);
  if (std::find(copies.begin(), copies.end(), stored) != copies.end()) {
    return {Kind::kCopy, kShared};
  }
  if (stored == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight") {
    return {Kind::kBuffer};
  }
  return {Kind::kParameter, stored};
}

OrderedJson hf_config(const T5Config& config, const Json& source) {
  check(!config.vocab_size.is_word(), "model.vocab_size: the model needs a number");
  OrderedJson json;
  json["architectures"] = {"T5ForConditionalGeneration"};
  json["model_type"] = "t5";
  json["is_encoder_decoder"] = true;
  json["vocab_size"] = *config.vocab_size.value;
  json["d_model"] = config.hidden_size;
  json["d_kv"] = config.d_kv;
  json["d_ff"] = config.ffn_hidden_size;
  json["num_layers"] = config.num_layers;
  json["num_decoder_layers"] = config.decoder_layers();
  json["num_heads"] = config.num_attention_heads;
  json["relative_attention_num_buckets"] = config.relative_buckets;
  json["relative_attention_max_distance"] = config.relative_max_distance;
  json["feed_forward_proj"] = feed_forward_name(config);
  json["layer_norm_epsilon"] = config.norm.eps;
  json["initializer_factor"] = config.init.factor;
  json["dropout_rate"] = config.dropout;
  json["tie_word_embeddings"] = config.tie_embeddings;
  // Version 4 scales the outputs of tied models, and of no other ones; version 5 asks this key.
  json["scale_decoder_outputs"] = config.scales_outputs();
  json["extra_ids"] = config.extra_ids;
  for (const auto& [key, id] : {std::pair("pad_token_id", config.pad_token),
                                {"eos_token_id", config.eos_token},
                                {"decoder_start_token_id", config.decoder_start_token}}) {
    check(!id.is_word(), "{}: the model needs a number", key);
    json[key] = *id.value;
  }
  json["dtype"] = "float32";
  hf::take_over(json, source,
                {"hidden_size", "num_attention_heads", "num_hidden_layers", "head_dim",
                 "dense_act_fn", "is_gated_act", "n_positions"});
  return json;
}

T5Config config_from_hf(const Json& json, std::string_view source,
                        const std::function<bool(const std::string& tensor)>& holds) {
  const hf::ConfigReader field(json, source,
                               {{"d_model", "hidden_size"},
                                {"num_heads", "num_attention_heads"},
                                {"num_layers", "num_hidden_layers"},
                                {"d_kv", "head_dim"}});
  const Defaults& otherwise = defaults_of(field);
  check(field.flag("is_encoder_decoder", true),
        "{}: is_encoder_decoder is false; a T5 has an encoder and a decoder", source);
  field.refuse({"is_decoder", "quantization_config", "pruned_heads", "tie_encoder_decoder",
                "cross_attention_hidden_size", "add_cross_attention"});

  T5Config config;
  config.vocab_size = field.count("vocab_size", otherwise.vocab);
  config.hidden_size = field.count("d_model", 512);
  config.d_kv = field.count("d_kv", 64);
  config.ffn_hidden_size = field.count("d_ff", otherwise.inner);
  config.num_layers = field.count("num_layers", otherwise.layers);
  if (const Json* layers = field.find("num_decoder_layers");
      layers != nullptr && !layers->is_null()) {
    config.num_decoder_layers = field.count("num_decoder_layers", 1);
  }
  config.num_attention_heads = field.count("num_heads", otherwise.heads);
  config.relative_buckets = field.count("relative_attention_num_buckets", 32);
  config.relative_max_distance = field.count("relative_attention_max_distance", 128);
  config.norm.eps = field.positive("layer_norm_epsilon", 1e-6);
  config.dropout = field.probability("dropout_rate", 0.1);
  config.init.factor = field.number("initializer_factor", 1);
  check(config.init.factor >= 0, "{}: initializer_factor is {}, not at least 0", source,
        config.init.factor);
  const FeedForward inner = feed_forward_of(field, source, otherwise.feed_forward);
  config.activation = inner.activation;
  config.gated = inner.gated;
  const bool says_tied = field.flag("tie_word_embeddings", otherwise.tied);
  const bool is_new = field.find("scale_decoder_outputs") != nullptr;
  // An mT5 has no scale, whatever its file says of ties.
  config.scale_outputs = field.flag("scale_decoder_outputs", says_tied && otherwise.tied);
  // Version 4 left a copy of the embeddings in the files of some tied models.
  config.tie_embeddings = !holds(kHead) || (says_tied && otherwise.tied && !is_new);
  config.pad_token = field.id("pad_token_id", 0);
  config.eos_token = field.id("eos_token_id", 1);
  config.decoder_start_token = field.id("decoder_start_token_id", *config.pad_token.value);
  config.extra_ids = field.id("extra_ids", 100);
  field.refuse_unknown({"n_positions"});
  try {
    check_config(config);
  } catch (const ConfigError& error) {
    fail("{}: {}", source, error.what());
  }
  return config;
}

}  // namespace mstrain::t5
