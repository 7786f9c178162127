#include "suites/transformer/llama/hf_names.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "suites/transformer/hf/config_reader.h"

namespace mstrain::llama {
namespace {

// What config.json means where it says nothing, by model_type.
struct Family {
  std::string_view type, class_name;  // of its classes in transformers, without what they are for
  int64_t vocab_size, ffn, positions, key_value_heads;  // key_value_heads: 0: those of queries
  int64_t head_dim;  // 0: what the queries' heads share of hidden_size
};
constexpr Family kFamilies[] = {
    {"llama", "Llama", 32000, 11008, 2048, 0, 0},
    {"mistral", "Mistral", 32000, 14336, 131072, 8, 0},
    {"qwen2", "Qwen2", 151936, 22016, 32768, 32, 0},
    {"qwen3", "Qwen3", 151936, 22016, 32768, 32, 128},
};
constexpr int64_t kDefaultWindow = 4096;    // where there is one
constexpr int64_t kDefaultFullLayers = 28;  // of qwen2 and 3
constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";

bool is_given(const hf::ConfigReader& file, const char* key) {
  const Json* value = file.find(key);
  return value != nullptr && !value->is_null();
}
std::optional<int64_t> count_where_given(const hf::ConfigReader& file, const char* key) {
  return is_given(file, key) ? std::optional(file.count(key, 1)) : std::nullopt;
}

const Family& family_of(const hf::ConfigReader& file, std::string_view source) {
  const std::string type = file.text("model_type", "");
  check(!type.empty(), "{}: model_type is missing", source);
  for (const Family& family : kFamilies) {
    if (type == family.type) {
      return family;
    }
  }
  fail("{}: model_type is {}, none of {}", source, type, fmt::join(model_types(), ", "));
}

// Numbers of `rope_scaling` or `rope_parameters`.
class RopeReader {
 public:
  RopeReader(const Json& json, const std::string& source) : file_(json, source) {}

  // `positions`: the model's longest sequence. `theta`, `original`: what the file says beside the section.
  RopeConfig read(const std::string& source, double theta, std::optional<int64_t> original,
                  int64_t positions) const {
    RopeConfig rope;
    rope.type = type(source);
    refuse_unknown();
    rope.theta = is_given(file_, "rope_theta") ? file_.positive("rope_theta", 0) : theta;
    check(
        !is_given(file_, "partial_rotary_factor") || file_.number("partial_rotary_factor", 1) == 1,
        "{}: partial_rotary_factor is not supported", source);
    if (rope.type == RopeType::kDefault) {
      return rope;
    }
    if (rope.type == RopeType::kLlama3 || rope.type == RopeType::kYarn) {
      rope.original_max_position_embeddings =
          original ? original : count_where_given(file_, "original_max_position_embeddings");
    }
    const double reach =
        static_cast<double>(positions) /
        static_cast<double>(rope.original_max_position_embeddings.value_or(positions));
    check(is_given(file_, "factor") || rope.type == RopeType::kYarn, "{}: factor is missing",
          source);
    rope.factor = number("factor", reach);
    check(rope.factor >= 1, "{}: factor is {}, not at least 1", source, rope.factor);
    if (rope.type == RopeType::kLlama3) {
      check(is_given(file_, "low_freq_factor") && is_given(file_, "high_freq_factor"),
            "{}: llama3 needs low_freq_factor and high_freq_factor", source);
      rope.low_freq_factor = file_.positive("low_freq_factor", 1);
      rope.high_freq_factor = file_.positive("high_freq_factor", 4);
    }
    if (rope.type == RopeType::kYarn) {
      rope.beta_fast = number("beta_fast", rope.beta_fast);
      rope.beta_slow = number("beta_slow", rope.beta_slow);
      rope.truncate = file_.flag("truncate", true);
      for (const auto& [key, value] : {std::pair("attention_factor", &rope.attention_factor),
                                       {"mscale", &rope.mscale},
                                       {"mscale_all_dim", &rope.mscale_all_dim}}) {
        if (is_given(file_, key)) {
          *value = file_.number(key, 0);
          check(**value >= 0, "{}: {} is {}, not at least 0", source, key, **value);
        }
      }
    }
    return rope;
  }

 private:
  // Keys of other types than the one that is named change nothing.
  void refuse_unknown() const {
    file_.refuse_unknown({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor",
                          "original_max_position_embeddings", "low_freq_factor", "high_freq_factor",
                          "beta_fast", "beta_slow", "truncate", "attention_factor", "mscale",
                          "mscale_all_dim"});
  }
  RopeType type(const std::string& source) const {
    const std::string name = file_.text("rope_type", file_.text("type", "default"));
    std::vector<std::string> known;
    for (const RopeType type : {RopeType::kDefault, RopeType::kLinear, RopeType::kDynamic,
                                RopeType::kLlama3, RopeType::kYarn}) {
      if (name == name_of(type)) {
        return type;
      }
      known.emplace_back(name_of(type));
    }
    fail("{}: rope_type {} is unknown; known are {}{}", source, name, fmt::join(known, ", "),
         did_you_mean(name, known));
  }
  double number(const char* key, double otherwise) const {
    return is_given(file_, key) ? file_.positive(key, otherwise) : otherwise;
  }

  hf::ConfigReader file_;
};

// The 5.x form, `rope_parameters`, or that of 4.x: `rope_scaling` with `rope_theta` beside it.
RopeConfig rope_of(const hf::ConfigReader& file, std::string_view source, int64_t positions) {
  constexpr double kTheta = 10000;
  const double theta = is_given(file, "rope_theta") ? file.positive("rope_theta", kTheta) : kTheta;
  const auto original = count_where_given(file, "original_max_position_embeddings");
  // Asked for either way, so that both are known keys.
  const bool is_old = is_given(file, "rope_scaling");
  const bool is_new = is_given(file, "rope_parameters");
  const std::string key = is_old ? "rope_scaling" : "rope_parameters";
  const Json none = Json::object();
  const Json& section = is_old || is_new ? *file.find(key) : none;
  const std::string place = fmt::format("{}: {}", source, key);
  check(section.is_object(), "{}: is {}, not a map with rope_type", place, section.dump());
  return RopeReader(section, place).read(place, theta, original, positions);
}

// Layers of qwen2 and 3 are sliding from one on, or none is.
int64_t full_layers(const hf::ConfigReader& file, std::string_view source, int64_t layers) {
  const int64_t from =
      std::min(layers, is_given(file, "max_window_layers") ? file.id("max_window_layers", 0)
                                                           : kDefaultFullLayers);
  if (!is_given(file, "layer_types")) {
    return from;
  }
  const Json& types = *file.find("layer_types");
  check(types.is_array() && std::cmp_equal(types.size(), layers),
        "{}: layer_types is no list of {} names", source, layers);
  int64_t full = 0;
  while (full < layers && types[static_cast<size_t>(full)] == kFull) {
    ++full;
  }
  for (int64_t i = full; i < layers; ++i) {
    check(types[static_cast<size_t>(i)] == kSliding,
          "{}: layer_types[{}] is {}; supported are layers of {} and then layers of {}", source, i,
          types[static_cast<size_t>(i)].dump(), kFull, kSliding);
  }
  return full;
}

void read_windows(const hf::ConfigReader& file, std::string_view source, const Family& family,
                  LlamaConfig& config) {
  if (family.type == "llama") {
    return;
  }
  const bool has_window =
      file.find("sliding_window") == nullptr || is_given(file, "sliding_window");
  const auto window = [&] { return file.count("sliding_window", kDefaultWindow); };
  if (family.type == "mistral") {
    if (has_window) {
      config.sliding_window = window();
    }
    return;
  }
  const bool uses = file.flag("use_sliding_window", false);
  const int64_t full = full_layers(file, source, config.num_layers);
  if (uses && has_window && full < config.num_layers) {
    config.sliding_window = window();
    config.full_attention_layers = full;
  } else {
    check(!is_given(file, "layer_types") || full == config.num_layers,
          "{}: layer_types has layers of {}, but there is no window", source, kSliding);
  }
}

OrderedJson rope_parameters(const LlamaConfig& config) {
  const RopeConfig& rope = config.rope;
  OrderedJson json;
  json["rope_type"] = std::string(name_of(rope.type));
  json["rope_theta"] = rope.theta;
  if (rope.type == RopeType::kDefault) {
    return json;
  }
  json["factor"] = rope.factor;
  if (rope.type == RopeType::kLlama3 || rope.type == RopeType::kYarn) {
    json["original_max_position_embeddings"] =
        rope.original_max_position_embeddings.value_or(config.max_position_embeddings);
  }
  if (rope.type == RopeType::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.type == RopeType::kYarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    for (const auto& [key, value] : {std::pair("attention_factor", rope.attention_factor),
                                     {"mscale", rope.mscale},
                                     {"mscale_all_dim", rope.mscale_all_dim}}) {
      if (value) {
        json[key] = *value;
      }
    }
  }
  return json;
}

}  // namespace

std::vector<std::string> model_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) {
    types.emplace_back(family.type);
  }
  return types;
}

std::vector<std::string> families_of(const LlamaConfig& config) {
  std::vector<std::string> types;
  const bool windowed = config.sliding_window.has_value();
  if (config.qk_norm) {
    if (config.attention_bias != AttentionBias::kQkv && !config.mlp_bias) {
      types.emplace_back("qwen3");
    }
    return types;
  }
  if (!windowed && config.attention_bias != AttentionBias::kQkv) {
    types.emplace_back("llama");
  }
  if (config.attention_bias == AttentionBias::kNone && !config.mlp_bias &&
      config.full_attention_layers == 0) {
    types.emplace_back("mistral");
  }
  if (config.attention_bias == AttentionBias::kQkv && !config.mlp_bias) {
    types.emplace_back("qwen2");
  }
  return types;
}

Shape hf_shape(const LlamaConfig&, std::string_view name, const Shape& shape) {
  for (const char* projection : {".q_proj", ".k_proj", ".v_proj"}) {
    if (name.ends_with(std::string(projection) + ".weight")) {
      return {shape[0] * shape[1], shape[2]};
    }
    if (name.ends_with(std::string(projection) + ".bias")) {
      return {shape[0] * shape[1]};
    }
  }
  if (name.ends_with(".o_proj.weight")) {
    return {shape[0], shape[1] * shape[2]};
  }
  return shape;
}

StoredMeaning hf_meaning(const LlamaConfig& config, const std::string& stored) {
  using Kind = StoredMeaning::Kind;
  if (hf::is_of_other_head(stored, head_of(config.head))) {
    return {Kind::kBuffer};
  }
  if (stored == "lm_head.weight" && config.tie_embeddings) {
    return {Kind::kCopy, "model.embed_tokens.weight"};
  }
  if (stored.ends_with(".rotary_emb.inv_freq")) {  // files of old releases
    return {Kind::kBuffer};
  }
  return {Kind::kParameter, stored};
}

OrderedJson hf_config(const LlamaConfig& config, const Json& source) {
  check(!config.vocab_size.is_word(), "model.vocab_size: the model needs a number");
  const std::vector<std::string> families = families_of(config);
  const std::string came_as = source.value("model_type", "");
  const bool stays = std::find(families.begin(), families.end(), came_as) != families.end();
  const std::string type = stays ? came_as : families.at(0);
  const auto& family = *std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                     [&](const Family& each) { return each.type == type; });
  OrderedJson json;
  hf::write_head(json, std::string(family.class_name), "ForCausalLM", head_of(config.head));
  json["model_type"] = type;
  json["vocab_size"] = *config.vocab_size.value;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.ffn_dim();
  json["num_hidden_layers"] = config.num_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["num_key_value_heads"] = config.key_value_heads();
  json["head_dim"] = config.head_width();
  json["hidden_act"] = std::string(name_of(config.activation));
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["initializer_range"] = config.init.std;
  json["rms_norm_eps"] = config.norm.eps;
  json["attention_dropout"] = config.dropout.attention;
  json["rope_parameters"] = rope_parameters(config);
  json["tie_word_embeddings"] = config.tie_embeddings;
  const OrderedJson window =
      config.sliding_window ? OrderedJson(*config.sliding_window) : OrderedJson();
  if (type == "llama") {
    json["attention_bias"] = config.attention_bias == AttentionBias::kAll;
    json["mlp_bias"] = config.mlp_bias;
  } else if (type == "mistral") {
    json["sliding_window"] = window;
  } else {
    if (config.qk_norm) {
      json["attention_bias"] = config.attention_bias == AttentionBias::kAll;
    }
    json["use_sliding_window"] = config.sliding_window.has_value();
    json["sliding_window"] = window;
    const int64_t full = config.sliding_window ? config.full_attention_layers : config.num_layers;
    json["max_window_layers"] = full;
    json["layer_types"] = OrderedJson::array();
    for (int64_t i = 0; i < config.num_layers; ++i) {
      json["layer_types"].push_back(i < full ? kFull : kSliding);
    }
  }
  json["dtype"] = "float32";
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    const auto found = source.find(key);
    json[key] = found == source.end() ? OrderedJson() : OrderedJson(*found);
  }
  hf::take_over(
      json, source,
      {"rope_scaling", "rope_theta", "original_max_position_embeddings", "pretraining_tp"});
  return json;
}

LlamaConfig config_from_hf(const Json& json, std::string_view source) {
  const hf::ConfigReader file(json, source);
  const Family& family = family_of(file, source);
  file.refuse({"quantization_config", "pruned_heads"});

  LlamaConfig config;
  config.head = file.head();
  config.vocab_size = file.count("vocab_size", family.vocab_size);
  config.hidden_size = file.count("hidden_size", 4096);
  config.ffn_hidden_size = file.count("intermediate_size", family.ffn);
  config.num_layers = file.count("num_hidden_layers", 32);
  config.num_attention_heads = file.count("num_attention_heads", 32);
  config.num_key_value_heads = count_where_given(file, "num_key_value_heads");
  if (file.find("num_key_value_heads") == nullptr && family.key_value_heads > 0) {
    config.num_key_value_heads = family.key_value_heads;
  }
  config.head_dim = count_where_given(file, "head_dim");
  if (!config.head_dim && family.head_dim > 0) {
    config.head_dim = family.head_dim;
  }
  config.max_position_embeddings = file.count("max_position_embeddings", family.positions);
  config.activation = file.activation("hidden_act", Activation::kSilu);
  config.norm.eps = file.positive("rms_norm_eps", 1e-6);
  config.init.std = file.number("initializer_range", 0.02);
  check(config.init.std >= 0, "{}: initializer_range is {}, not at least 0", source,
        config.init.std);
  if (is_given(file, "attention_dropout")) {
    config.dropout.attention = file.probability("attention_dropout", 0);
  }
  config.tie_embeddings = file.flag("tie_word_embeddings", false);
  config.rope = rope_of(file, source, config.max_position_embeddings);
  config.qk_norm = family.type == "qwen3";
  if (family.type == "llama" || config.qk_norm) {
    config.attention_bias =
        file.flag("attention_bias", false) ? AttentionBias::kAll : AttentionBias::kNone;
  } else if (family.type == "qwen2") {
    config.attention_bias = AttentionBias::kQkv;
  }
  if (family.type == "llama") {
    config.mlp_bias = file.flag("mlp_bias", false);
  }
  read_windows(file, source, family, config);
  file.refuse_unknown();
  try {
    check_config(config);
  } catch (const ConfigError& error) {
    fail("{}: {}", source, error.what());
  }
  return config;
}

}  // namespace mstrain::llama
