#include "suites/transformer/gpt/hf_names.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain::gpt {
namespace {

// Names that Hugging Face has for an activation; the first one is ours.
struct ActivationNames {
  Activation activation;
  std::vector<std::string> names;
};
const std::vector<ActivationNames>& activation_names() {
  static const std::vector<ActivationNames> table{
      {Activation::kGelu, {"gelu", "gelu_python"}},
      {Activation::kGeluNew,
       {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"}},
      {Activation::kRelu, {"relu"}},
      {Activation::kSilu, {"silu", "swish"}},
      {Activation::kTanh, {"tanh"}}};
  return table;
}

constexpr int64_t kMostOfAnything = int64_t{1} << 28;  // products of two of them overflow nowhere

struct FieldReader {
  const Json& json;
  std::string_view source;

  // The value under `key` or the other name that Hugging Face's GPT2Config has for it; null where there is none.
  const Json* find(const char* key) const {
    for (const auto& [name, other] : {std::pair("n_positions", "max_position_embeddings"),
                                      {"n_embd", "hidden_size"},
                                      {"n_layer", "num_hidden_layers"},
                                      {"n_head", "num_attention_heads"}}) {
      if (key == std::string_view(name) && !json.contains(name) && json.contains(other)) {
        return &json[other];
      }
    }
    const auto found = json.find(key);
    return found == json.end() ? nullptr : &*found;
  }
  int64_t count(const char* key, int64_t otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return otherwise;
    }
    check(value->is_number_integer() && *value > 0 && *value < kMostOfAnything,
          "{}: {} is {}, not a positive integer below 2^28", source, key, value->dump());
    return value->get<int64_t>();
  }
  double number(const char* key, double otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return otherwise;
    }
    check(value->is_number(), "{}: {} is {}, not a number", source, key, value->dump());
    return value->get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return otherwise;
    }
    check(value->is_boolean(), "{}: {} is {}, not true or false", source, key, value->dump());
    return value->get<bool>();
  }
  double probability(const char* key) const {
    const double value = number(key, 0.1);
    check(value >= 0 && value < 1, "{}: {} is {}, not in [0, 1)", source, key, value);
    return value;
  }
};

Activation activation_of(const FieldReader& field) {
  const Json* found = field.find("activation_function");
  if (found == nullptr) {
    return Activation::kGeluNew;
  }
  check(found->is_string(), "{}: activation_function is {}, not a name", field.source,
        found->dump());
  const std::string name = found->get<std::string>();
  std::vector<std::string> known;
  std::string list;
  for (const ActivationNames& row : activation_names()) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) {
      return row.activation;
    }
    list += (list.empty() ? "" : ", ") + row.names.front();
    known.insert(known.end(), row.names.begin(), row.names.end());
  }
  const std::string meant = did_you_mean(name, known);
  fail("{}: activation_function {} is unknown{}", field.source, name,
       meant.empty() ? "; known are " + list : meant);
}

// Whether a key of config.json says what our own configuration says already, or where the file came from.
bool is_replaced(const std::string& key) {
  static constexpr std::string_view kKeys[] = {
      "_name_or_path",     "transformers_version",    "torch_dtype", "architectures",
      "hidden_size",       "max_position_embeddings", "n_ctx",       "num_attention_heads",
      "num_hidden_layers", "quantization_config",     "auto_map"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

void refuse_other_models(const FieldReader& field) {
  const Json* type = field.find("model_type");
  check(type != nullptr, "{}: model_type is missing", field.source);
  check(*type == "gpt2", "{}: model_type is {}, not gpt2", field.source, type->dump());
  check(!field.flag("add_cross_attention", false),
        "{}: add_cross_attention is true; cross-attention is not part of a GPT", field.source);
  for (const char* key : {"quantization_config", "pruned_heads"}) {
    const Json* value = field.find(key);
    check(value == nullptr || value->empty(), "{}: {} is not supported", field.source, key);
  }
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

StoredMeaning hf_meaning(const std::string& stored, bool tied) {
  using Kind = StoredMeaning::Kind;
  static constexpr std::string_view kPrefix = "transformer.";
  if (stored == "lm_head.weight") {
    return tied ? StoredMeaning{Kind::kCopy, "transformer.wte.weight"}
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
  json["architectures"] = {"GPT2LMHeadModel"};
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
  for (const auto& [key, value] : source.items()) {
    if (!json.contains(key) && !is_replaced(key)) {
      json[key] = value;
    }
  }
  return json;
}

GptConfig config_from_hf(const Json& json, std::string_view source) {
  check(json.is_object(), "{}: is no configuration of a model", source);
  const FieldReader field{json, source};
  refuse_other_models(field);
  field.flag("reorder_and_upcast_attn", false);

  GptConfig config;
  config.vocab_size = field.count("vocab_size", 50257);
  config.max_position_embeddings = field.count("n_positions", 1024);
  config.hidden_size = field.count("n_embd", 768);
  config.num_layers = field.count("n_layer", 12);
  config.num_attention_heads = field.count("n_head", 12);
  if (const Json* inner = field.find("n_inner"); inner != nullptr && !inner->is_null()) {
    config.ffn_hidden_size = field.count("n_inner", 1);
  }
  config.activation = activation_of(field);
  config.scale_attn_weights = field.flag("scale_attn_weights", true);
  config.scale_attn_by_inverse_layer_idx = field.flag("scale_attn_by_inverse_layer_idx", false);
  config.norm.eps = field.number("layer_norm_epsilon", 1e-5);
  check(config.norm.eps > 0, "{}: layer_norm_epsilon is {}, not above 0", source, config.norm.eps);
  config.init.std = field.number("initializer_range", 0.02);
  check(config.init.std >= 0, "{}: initializer_range is {}, not at least 0", source,
        config.init.std);
  config.dropout = {field.probability("resid_pdrop"), field.probability("attn_pdrop"),
                    field.probability("embd_pdrop")};
  config.tie_embeddings = field.flag("tie_word_embeddings", true);
  check(config.hidden_size % config.num_attention_heads == 0,
        "{}: n_head {} does not divide n_embd {}", source, config.num_attention_heads,
        config.hidden_size);
  return config;
}

}  // namespace mstrain::gpt
