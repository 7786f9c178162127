#include "suites/transformer/hf/config_reader.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain::hf {
namespace {

constexpr const char* kSequenceClass = "ForSequenceClassification";
constexpr const char* kValues =
    "mstrain_values";  // score.weight gives values of tokens; no class of transformers reads it

constexpr int64_t kMostOfAnything = int64_t{1} << 28;  // products of two of them overflow nowhere

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

// What any model's file may hold: where it came from, how text is generated, and what heads of other tasks read.
const std::set<std::string>& harmless_everywhere() {
  static const std::set<std::string> keys{"_name_or_path",
                                          "architectures",
                                          "model_type",
                                          "transformers_version",
                                          "dtype",
                                          "torch_dtype",
                                          "auto_map",
                                          "use_cache",
                                          "return_dict",
                                          "use_return_dict",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_scores",
                                          "output_past",
                                          "return_dict_in_generate",
                                          "torchscript",
                                          "use_bfloat16",
                                          "tf_legacy_loss",
                                          "gradient_checkpointing",
                                          "tokenizer_class",
                                          "prefix",
                                          "finetuning_task",
                                          "task_specific_params",
                                          "problem_type",
                                          "id2label",
                                          "label2id",
                                          "num_labels",
                                          "classifier_dropout",
                                          "chunk_size_feed_forward",
                                          "bos_token_id",
                                          "eos_token_id",
                                          "pad_token_id",
                                          "sep_token_id",
                                          "decoder_start_token_id",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "bad_words_ids",
                                          "suppress_tokens",
                                          "begin_suppress_tokens",
                                          "max_length",
                                          "min_length",
                                          "max_new_tokens",
                                          "do_sample",
                                          "early_stopping",
                                          "num_beams",
                                          "num_beam_groups",
                                          "num_return_sequences",
                                          "diversity_penalty",
                                          "length_penalty",
                                          "repetition_penalty",
                                          "no_repeat_ngram_size",
                                          "encoder_no_repeat_ngram_size",
                                          "exponential_decay_length_penalty",
                                          "remove_invalid_values",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "typical_p",
                                          "transformers.js_config",
                                          "_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "attn_implementation",
                                          "pretraining_tp"};
  return keys;
}

bool is_nothing(const Json& value) {
  return value.is_null() || value == false || value == 0 ||
         (!value.is_number() && !value.is_boolean() && value.empty());
}

}  // namespace

ConfigReader::ConfigReader(const Json& json, std::string_view source,
                           std::map<std::string, std::string> other_names)
    : json_(json), source_(source), other_names_(std::move(other_names)) {
  check(json.is_object(), "{}: is no configuration of a model", source);
}

const Json* ConfigReader::find(const std::string& key) const {
  asked_.insert(key);
  if (const auto found = json_.find(key); found != json_.end()) {
    return &*found;
  }
  const auto other = other_names_.find(key);
  if (other == other_names_.end()) {
    return nullptr;
  }
  asked_.insert(other->second);
  const auto found = json_.find(other->second);
  return found == json_.end() ? nullptr : &*found;
}

void ConfigReader::expect_model_type(std::string_view type) const {
  const Json* found = find("model_type");
  check(found != nullptr, "{}: model_type is missing", source_);
  check(*found == type, "{}: model_type is {}, not {}", source_, found->dump(), type);
}

void ConfigReader::fail_expected(const std::string& key, const Json& value,
                                 std::string_view expected) const {
  fail("{}: {} is {}, not {}", source_, key, value.dump(), expected);
}

int64_t ConfigReader::count(const std::string& key, int64_t otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_number_integer() || *value <= 0 || *value >= kMostOfAnything) {
    fail_expected(key, *value, "a positive integer below 2^28");
  }
  return value->get<int64_t>();
}

int64_t ConfigReader::id(const std::string& key, int64_t otherwise) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) {
    return otherwise;
  }
  if (!value->is_number_integer() || *value < 0 || *value >= kMostOfAnything) {
    fail_expected(key, *value, "the id of a token");
  }
  return value->get<int64_t>();
}

double ConfigReader::number(const std::string& key, double otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_number()) {
    fail_expected(key, *value, "a number");
  }
  return value->get<double>();
}

double ConfigReader::positive(const std::string& key, double otherwise) const {
  const double value = number(key, otherwise);
  check(value > 0, "{}: {} is {}, not above 0", source_, key, value);
  return value;
}

double ConfigReader::probability(const std::string& key, double otherwise) const {
  const double value = number(key, otherwise);
  check(value >= 0 && value < 1, "{}: {} is {}, not in [0, 1)", source_, key, value);
  return value;
}

bool ConfigReader::flag(const std::string& key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_boolean()) {
    fail_expected(key, *value, "true or false");
  }
  return value->get<bool>();
}

std::string ConfigReader::text(const std::string& key, const std::string& otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_string()) {
    fail_expected(key, *value, "a name");
  }
  return value->get<std::string>();
}

Activation ConfigReader::activation(const std::string& key, Activation otherwise) const {
  return find(key) == nullptr ? otherwise
                              : activation_of(text(key, ""), fmt::format("{}: {}", source_, key));
}

void ConfigReader::refuse(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    const Json* value = find(key);
    const bool is_of_bits = std::string_view(key).starts_with("quantization");
    check(value == nullptr || is_nothing(*value), "{}: {} is not supported{}", source_, key,
          is_of_bits ? "; take the model's full weights, which model.lora.base: nf4 and generate "
                       "--weights keep in fewer bits"
                     : "");
  }
}

void ConfigReader::refuse_unknown(std::initializer_list<const char*> harmless) const {
  std::set<std::string> known = asked_;
  known.insert(harmless.begin(), harmless.end());
  for (const auto& [key, value] : json_.items()) {
    if (!known.contains(key) && !harmless_everywhere().contains(key) && !is_nothing(value)) {
      fail("{}: {} is unknown and might change what the model computes{}", source_, key,
           did_you_mean(key, std::vector<std::string>(known.begin(), known.end())));
    }
  }
}

HeadType ConfigReader::head() const {
  const Json* const classes = find("architectures");
  const bool is_score =
      classes != nullptr && classes->is_array() &&
      std::any_of(classes->begin(), classes->end(), [](const Json& name) {
        return name.is_string() && name.get<std::string>().ends_with(kSequenceClass);
      });
  const bool has_values = flag(kValues, false);
  if (!is_score) {
    return has_values ? HeadType::kBoth : HeadType::kNextToken;
  }
  const Json* const labels = find("id2label");
  const int64_t count = labels != nullptr && labels->is_object()
                            ? static_cast<int64_t>(labels->size())
                            : this->count("num_labels", 2);
  check(count == 1, "{}: {} with {} labels; of classes of texts those with one, a score, are known",
        source_, classes->dump(), count);
  return HeadType::kScore;
}

void write_head(OrderedJson& config, const std::string& class_name, const std::string& otherwise,
                HeadType head) {
  const bool is_score = head == HeadType::kScore;
  config["architectures"] = {class_name + (is_score ? std::string(kSequenceClass) : otherwise)};
  if (is_score) {
    config["id2label"] = {{"0", "LABEL_0"}};
    config["label2id"] = {{"LABEL_0", 0}};
  }
  if (head == HeadType::kBoth) {
    config[kValues] = true;
  }
}

bool is_of_other_head(const std::string& stored, HeadType head) {
  return (head == HeadType::kScore && stored == "lm_head.weight") ||
         (head == HeadType::kNextToken && stored == kScoreWeight);
}

Activation activation_of(const std::string& name, std::string_view where) {
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
  fail("{} {} is unknown{}", where, name, meant.empty() ? "; known are " + list : meant);
}

void take_over(OrderedJson& config, const Json& source,
               std::initializer_list<const char*> replaced) {
  static constexpr std::string_view kReplaced[] = {"_name_or_path",       "transformers_version",
                                                   "torch_dtype",         "architectures",
                                                   "quantization_config", "auto_map"};
  for (const auto& [key, value] : source.items()) {
    const bool said =
        config.contains(key) ||
        std::find(std::begin(kReplaced), std::end(kReplaced), key) != std::end(kReplaced) ||
        std::find(replaced.begin(), replaced.end(), key) != replaced.end();
    if (!said) {
      config[key] = value;
    }
  }
}

}  // namespace mstrain::hf
