#include "suites/transformer/vit/hf_names.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "suites/transformer/hf/config_reader.h"

namespace mstrain::vit {
namespace {

constexpr std::string_view kPrefix = "vit.";

// What transformers 5 calls a module, and what files do.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"attention.q_proj", "attention.attention.query"},
    {"attention.k_proj", "attention.attention.key"},
    {"attention.v_proj", "attention.attention.value"},
    {"attention.o_proj", "attention.output.dense"},
    {"mlp.fc1", "intermediate.dense"},
    {"mlp.fc2", "output.dense"}};

std::string renamed(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) {
    return std::string(name);
  }
  name.remove_prefix(kLayers.size());
  const size_t dot = std::min(name.find('.'), name.size() - 1);
  const std::string_view number = name.substr(0, dot + 1);
  const std::string_view rest = name.substr(dot + 1);
  for (const auto& [now, before] : kRenamed) {
    if (rest.starts_with(now) && rest.substr(now.size()).starts_with('.')) {
      return fmt::format("encoder.layer.{}{}{}", number, before, rest.substr(now.size()));
    }
  }
  return fmt::format("encoder.layer.{}{}", number, rest);
}

// A size that both sides of a square have: a number, or a list of two equal ones.
int64_t side(const hf::ConfigReader& field, std::string_view source, const char* key,
             int64_t otherwise) {
  const Json* value = field.find(key);
  if (value == nullptr || !value->is_array()) {
    return field.count(key, otherwise);
  }
  check(value->size() == 2 && (*value)[0] == (*value)[1],
        "{}: {} is {}; images and patches must be square", source, key, value->dump());
  const Json one{{key, (*value)[0]}};
  return hf::ConfigReader(one, source).count(key, otherwise);
}

int64_t label_count(const hf::ConfigReader& field, std::string_view source) {
  const int64_t number = field.count("num_labels", 2);
  const Json* names = field.find("id2label");
  if (names == nullptr || names->is_null()) {
    return number;
  }
  check(names->is_object() && !names->empty(), "{}: id2label is {}, not a map from ids to names",
        source, names->dump());
  return static_cast<int64_t>(names->size());
}

// Names of labels by their number; empty where `source` does not name them all.
std::vector<std::string> labels_in(const Json& source) {
  const auto found = source.find("id2label");
  if (found == source.end() || !found->is_object()) {
    return {};
  }
  std::vector<std::string> labels;
  for (size_t i = 0; i < found->size(); ++i) {
    const auto name = found->find(std::to_string(i));
    if (name == found->end() || !name->is_string()) {
      return {};
    }
    labels.push_back(name->get<std::string>());
  }
  return labels;
}

std::string unnamed(int64_t label) { return fmt::format("LABEL_{}", label); }

}  // namespace

std::vector<std::string> named_labels(const Json& config_json) {
  std::vector<std::string> labels = labels_in(config_json);
  for (int64_t i = 0; i < std::ssize(labels); ++i) {
    if (labels[static_cast<size_t>(i)] != unnamed(i)) {
      return labels;
    }
  }
  return {};
}

std::vector<std::string> row_names(std::vector<std::string> data,
                                   const std::vector<std::string>& before, int64_t rows) {
  const std::set<std::string> taken(data.begin(), data.end());
  for (int64_t i = std::ssize(data); i < rows; ++i) {
    const bool stays = i < std::ssize(before) && !taken.contains(before[static_cast<size_t>(i)]);
    data.push_back(stays ? before[static_cast<size_t>(i)] : unnamed(i));
  }
  return data;
}

Shape hf_shape(const VitConfig&, std::string_view name, const Shape& shape) {
  if (name.find(".attention.attention.") != std::string_view::npos) {
    return name.ends_with(".weight") ? Shape{shape[0] * shape[1], shape[2]}
                                     : Shape{shape[0] * shape[1]};
  }
  if (name.ends_with(".attention.output.dense.weight")) {
    return {shape[0], shape[1] * shape[2]};
  }
  return shape;
}

StoredMeaning hf_meaning(const VitConfig&, const std::string& stored) {
  using Kind = StoredMeaning::Kind;
  std::string_view bare = stored;
  if (bare.starts_with("classifier.")) {
    return {Kind::kParameter, stored};
  }
  if (bare.starts_with("decoder.")) {
    return {Kind::kBuffer};
  }
  if (bare.starts_with(kPrefix)) {
    bare.remove_prefix(kPrefix.size());
  }
  if (bare.starts_with("pooler.dense.") || bare == "embeddings.mask_token") {
    return {Kind::kBuffer};
  }
  return {Kind::kParameter, std::string(kPrefix) + renamed(bare)};
}

std::vector<std::pair<std::string, std::string>> hf_other_names(const VitConfig& config) {
  std::vector<std::pair<std::string, std::string>> names;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (const auto& [now, before] : kRenamed) {
      names.emplace_back(fmt::format("{}encoder.layer.{}.{}", kPrefix, layer, before),
                         fmt::format("{}layers.{}.{}", kPrefix, layer, now));
    }
  }
  return names;
}

OrderedJson hf_config(const VitConfig& config, const Json& source,
                      const std::vector<std::string>& labels) {
  check(!config.num_classes.is_word(), "model.num_classes: the model needs a number");
  const int64_t classes = *config.num_classes.value;
  std::vector<std::string> names = labels;
  if (names.empty()) {
    names = labels_in(source);
    if (std::ssize(names) != classes) {
      names = row_names({}, {}, classes);
    }
  }
  OrderedJson json;
  json["architectures"] = {"ViTForImageClassification"};
  json["model_type"] = "vit";
  json["image_size"] = config.image_size;
  json["patch_size"] = config.patch_size;
  json["num_channels"] = config.num_channels;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.num_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["intermediate_size"] = config.ffn_dim();
  json["hidden_act"] = std::string(name_of(config.activation));
  json["qkv_bias"] = config.qkv_bias;
  json["layer_norm_eps"] = config.norm.eps;
  json["hidden_dropout_prob"] = config.dropout.hidden;
  json["attention_probs_dropout_prob"] = config.dropout.attention;
  json["initializer_range"] = config.init.std;
  json["dtype"] = "float32";
  for (int64_t i = 0; i < classes; ++i) {
    const std::string& name = names[static_cast<size_t>(i)];
    json["id2label"][std::to_string(i)] = name;
    json["label2id"][name] = i;
  }
  hf::take_over(json, source, {"num_labels", "problem_type"});
  return json;
}

VitConfig config_from_hf(const Json& json, std::string_view source) {
  const hf::ConfigReader field(json, source);
  field.expect_model_type("vit");
  field.refuse({"quantization_config", "pruned_heads"});
  const Json* problem = field.find("problem_type");
  check(problem == nullptr || problem->is_null() || *problem == "single_label_classification",
        "{}: problem_type is {}; a ViT here tells one label of an image", source,
        problem == nullptr ? "" : problem->dump());

  VitConfig config;
  config.image_size = side(field, source, "image_size", 224);
  config.patch_size = side(field, source, "patch_size", 16);
  config.num_channels = field.count("num_channels", 3);
  config.num_classes = label_count(field, source);
  check(*config.num_classes.value >= 2, "{}: there is 1 label; regression is not supported",
        source);
  config.hidden_size = field.count("hidden_size", 768);
  config.num_layers = field.count("num_hidden_layers", 12);
  config.num_attention_heads = field.count("num_attention_heads", 12);
  config.ffn_hidden_size = field.count("intermediate_size", 3072);
  config.activation = field.activation("hidden_act", Activation::kGelu);
  config.qkv_bias = field.flag("qkv_bias", true);
  config.norm.eps = field.positive("layer_norm_eps", 1e-12);
  config.dropout = {field.probability("hidden_dropout_prob", 0),
                    field.probability("attention_probs_dropout_prob", 0)};
  config.init.std = field.number("initializer_range", 0.02);
  check(config.init.std >= 0, "{}: initializer_range is {}, not at least 0", source,
        config.init.std);
  check(config.hidden_size % config.num_attention_heads == 0,
        "{}: num_attention_heads {} does not divide hidden_size {}", source,
        config.num_attention_heads, config.hidden_size);
  check(config.image_size % config.patch_size == 0,
        "{}: patch_size {} does not divide image_size {}", source, config.patch_size,
        config.image_size);
  field.refuse({"head_dim"});
  field.refuse_unknown(
      {"id2label", "label2id", "encoder_stride", "pooler_output_size", "pooler_act"});
  return config;
}

}  // namespace mstrain::vit
