#include "suites/transformer/gpt/hf_names.h"

namespace mstrain::gpt {
namespace {

struct FieldReader {
  const Json& json;
  std::string_view source;

  const Json& at(const char* key) const {
    const auto found = json.find(key);
    check(found != json.end(), "{}: {} is missing", source, key);
    return *found;
  }
  int64_t count(const char* key) const {
    const Json& value = at(key);
    check(value.is_number_integer() && value > 0 && value < int64_t{1} << 40,
          "{}: {} is {}, not a positive integer", source, key, value.dump());
    return value.get<int64_t>();
  }
  double number(const char* key, double otherwise) const {
    const auto found = json.find(key);
    if (found == json.end()) {
      return otherwise;
    }
    check(found->is_number(), "{}: {} is {}, not a number", source, key, found->dump());
    return found->get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    const auto found = json.find(key);
    if (found == json.end()) {
      return otherwise;
    }
    check(found->is_boolean(), "{}: {} is {}, not true or false", source, key, found->dump());
    return found->get<bool>();
  }
  double probability(const char* key) const {
    const double value = number(key, 0.1);
    check(value >= 0 && value < 1, "{}: {} is {}, not in [0, 1)", source, key, value);
    return value;
  }
};

Activation activation_of(const FieldReader& field) {
  const auto found = field.json.find("activation_function");
  if (found == field.json.end()) {
    return Activation::kGeluNew;
  }
  check(found->is_string(), "{}: activation_function is {}, not a name", field.source,
        found->dump());
  const std::string name = found->get<std::string>();
  for (Activation activation :
       {Activation::kGelu, Activation::kGeluNew, Activation::kRelu, Activation::kSilu}) {
    if (name_of(activation) == name) {
      return activation;
    }
  }
  fail("{}: activation_function {} is unknown; known are gelu, gelu_new, relu, silu", field.source,
       name);
}

}  // namespace

Shape hf_shape(std::string_view name, const Shape& shape) {
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

OrderedJson hf_config(const GptConfig& config) {
  check(!config.vocab_size.is_word(), "model.vocab_size: the model needs a number");
  OrderedJson json;
  json["architectures"] = {"GPT2LMHeadModel"};
  json["model_type"] = "gpt2";
  json["vocab_size"] = *config.vocab_size.value;
  json["n_positions"] = config.max_position_embeddings;
  json["n_embd"] = config.hidden_size;
  json["n_layer"] = config.num_layers;
  json["n_head"] = config.num_attention_heads;
  json["n_inner"] = config.ffn_hidden_size ? OrderedJson(*config.ffn_hidden_size) : OrderedJson();
  json["activation_function"] = name_of(config.activation);
  json["layer_norm_epsilon"] = config.norm.eps;
  json["initializer_range"] = config.init.std;
  json["embd_pdrop"] = config.dropout.embedding;
  json["attn_pdrop"] = config.dropout.attention;
  json["resid_pdrop"] = config.dropout.hidden;
  json["scale_attn_weights"] = true;
  json["scale_attn_by_inverse_layer_idx"] = false;
  json["reorder_and_upcast_attn"] = false;
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["dtype"] = "float32";
  return json;
}

GptConfig config_from_hf(const Json& json, std::string_view source) {
  check(json.is_object(), "{}: is no configuration of a model", source);
  const FieldReader field{json, source};
  check(field.at("model_type") == "gpt2", "{}: model_type is {}, not gpt2", source,
        json["model_type"].dump());
  check(field.flag("scale_attn_weights", true) &&
            !field.flag("scale_attn_by_inverse_layer_idx", false),
        "{}: attention scores are scaled in another way than by 1/sqrt(head_dim)", source);
  check(!field.flag("add_cross_attention", false), "{}: cross-attention is not part of a GPT",
        source);

  GptConfig config;
  config.vocab_size = field.count("vocab_size");
  config.max_position_embeddings = field.count("n_positions");
  config.hidden_size = field.count("n_embd");
  config.num_layers = field.count("n_layer");
  config.num_attention_heads = field.count("n_head");
  if (const auto inner = json.find("n_inner"); inner != json.end() && !inner->is_null()) {
    config.ffn_hidden_size = field.count("n_inner");
  }
  config.activation = activation_of(field);
  config.norm.eps = field.number("layer_norm_epsilon", 1e-5);
  config.init.std = field.number("initializer_range", 0.02);
  config.dropout = {field.probability("resid_pdrop"), field.probability("attn_pdrop"),
                    field.probability("embd_pdrop")};
  config.tie_embeddings = field.flag("tie_word_embeddings", true);
  check(config.hidden_size % config.num_attention_heads == 0,
        "{}: n_head {} does not divide n_embd {}", source, config.num_attention_heads,
        config.hidden_size);
  return config;
}

}  // namespace mstrain::gpt
