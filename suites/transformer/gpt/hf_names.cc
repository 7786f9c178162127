#include "suites/transformer/gpt/hf_names.h"

#include <algorithm>

#include "core/base/error.h"
#include "suites/transformer/hf/config_reader.h"

namespace mstrain::gpt {
namespace {

// The other names of keys that GPT2Config has.
hf::ConfigReader reader_of(const Json& json, std::string_view source) {
  return {json,
          source,
          {{"n_positions", "max_position_embeddings"},
           {"n_embd", "hidden_size"},
           {"n_layer", "num_hidden_layers"},
           {"n_head", "num_attention_heads"}}};
}

}  // namespace

Shape hf_shape(const GptConfig&, std::string_view name, const Shape& shape) {
  if (name.ends_with(".attn.c_attn.weight")) {
    return {shape[0], shape[1] * shape[2] * shape[3]};
  }
  if (name.ends_with(".attn.c_attn.bias")) {
    return {shape[0] * shape[1] * shape[2]};
  }
  if (name.ends_with(".attn.c_proj.weight")) {
    return {shape[0] * shape[1], shape[2]};
  }
  return shape;
}

StoredMeaning hf_meaning(const GptConfig& config, const std::string& stored) {
  using Kind = StoredMeaning::Kind;
  static constexpr std::string_view kPrefix = "transformer.";
  if (hf::is_of_other_head(stored, head_of(config.head))) {
    return {Kind::kBuffer};
  }
  if (stored == kScoreWeight) {
    return {Kind::kParameter, stored};
  }
  if (stored == "lm_head.weight") {
    return config.tie_embeddings ? StoredMeaning{Kind::kCopy, "transformer.wte.weight"}
                                 : StoredMeaning{Kind::kParameter, stored};
  }
  std::string_view bare = stored;
  if (bare.starts_with(kPrefix)) {
    bare.remove_prefix(kPrefix.size());
  }
  if (bare.starts_with("h.") && (bare.ends_with(".attn.bias") || bare.ends_with(".masked_bias"))) {
    const std::string_view rest = bare.substr(2);
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const std::string_view after = rest.substr(digits);
    if (digits > 0 && (after == ".attn.bias" || after == ".attn.masked_bias")) {
      return {Kind::kBuffer};
    }
  }
  return {Kind::kParameter, std::string(kPrefix) + std::string(bare)};
}

OrderedJson hf_config(const GptConfig& config, const Json& source) {
  check(!config.vocab_size.is_word(), "model.vocab_size: the model needs a number");
  const std::string activation(name_of(config.activation));
  OrderedJson json;
  hf::write_head(json, "GPT2", "LMHeadModel", head_of(config.head));
  json["model_type"] = "gpt2";
  json["vocab_size"] = *config.vocab_size.value;
  json["n_positions"] = config.max_position_embeddings;
  json["n_embd"] = config.hidden_size;
  json["n_layer"] = config.num_layers;
  json["n_head"] = config.num_attention_heads;
  json["n_inner"] = config.ffn_hidden_size ? OrderedJson(*config.ffn_hidden_size) : OrderedJson();
  json["activation_function"] = activation;
  json["layer_norm_epsilon"] = config.norm.eps;
  json["initializer_range"] = config.init.std;
  json["embd_pdrop"] = config.dropout.embedding;
  json["attn_pdrop"] = config.dropout.attention;
  json["resid_pdrop"] = config.dropout.hidden;
  json["scale_attn_weights"] = config.scale_attn_weights;
  json["scale_attn_by_inverse_layer_idx"] = config.scale_attn_by_inverse_layer_idx;
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["dtype"] = "float32";
  // Sums are made in f32 in either order.
  for (const auto& [key, otherwise] : {std::pair("reorder_and_upcast_attn", OrderedJson(false)),
                                       {"bos_token_id", OrderedJson()},
                                       {"eos_token_id", OrderedJson()}}) {
    json[key] = otherwise;
    if (const auto found = source.find(key); found != source.end()) {
      json[key] = *found;
    }
  }
  hf::take_over(json, source,
                {"hidden_size", "max_position_embeddings", "n_ctx", "num_attention_heads",
                 "num_hidden_layers"});
  return json;
}

GptConfig config_from_hf(const Json& json, std::string_view source) {
  const hf::ConfigReader field = reader_of(json, source);
  field.expect_model_type("gpt2");
  check(!field.flag("add_cross_attention", false),
        "{}: add_cross_attention is true; cross-attention is not part of a GPT", source);
  field.refuse({"quantization_config", "pruned_heads"});
  field.flag("reorder_and_upcast_attn", false);

  GptConfig config;
  config.head = field.head();
  config.vocab_size = field.count("vocab_size", 50257);
  config.max_position_embeddings = field.count("n_positions", 1024);
  config.hidden_size = field.count("n_embd", 768);
  config.num_layers = field.count("n_layer", 12);
  config.num_attention_heads = field.count("n_head", 12);
  if (const Json* inner = field.find("n_inner"); inner != nullptr && !inner->is_null()) {
    config.ffn_hidden_size = field.count("n_inner", 1);
  }
  config.activation = field.activation("activation_function", Activation::kGeluNew);
  config.scale_attn_weights = field.flag("scale_attn_weights", true);
  config.scale_attn_by_inverse_layer_idx = field.flag("scale_attn_by_inverse_layer_idx", false);
  config.norm.eps = field.positive("layer_norm_epsilon", 1e-5);
  config.init.std = field.number("initializer_range", 0.02);
  check(config.init.std >= 0, "{}: initializer_range is {}, not at least 0", source,
        config.init.std);
  config.dropout = {field.probability("resid_pdrop", 0.1), field.probability("attn_pdrop", 0.1),
                    field.probability("embd_pdrop", 0.1)};
  config.tie_embeddings = field.flag("tie_word_embeddings", true);
  check(config.hidden_size % config.num_attention_heads == 0,
        "{}: n_head {} does not divide n_embd {}", source, config.num_attention_heads,
        config.hidden_size);
  return config;
}

}  // namespace mstrain::gpt
