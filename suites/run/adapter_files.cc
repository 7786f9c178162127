#include "suites/run/adapter_files.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "core/base/error.h"

namespace mstrain {
namespace {

// Keys that change no number of what the adapter computes.
constexpr std::string_view kHarmless[] = {"auto_mapping",        "base_model_name_or_path",
                                          "corda_config",        "eva_config",
                                          "ensure_weight_tying", "fan_in_fan_out",
                                          "inference_mode",      "loftq_config",
                                          "lora_ga_config",      "megatron_core",
                                          "peft_type",           "peft_version",
                                          "qalora_group_size",   "revision",
                                          "runtime_config",      "task_type"};

bool is_nothing(const Json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

class Reader {
 public:
  Reader(const Json& json, const std::string& source) : json_(json), source_(source) {
    check(json.is_object(), "{}: is no configuration of an adapter", source);
  }

  // Null where the key is absent or null.
  const Json* find(const std::string& key) {
    asked_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  double number(const std::string& key, double otherwise) {
    const Json* const value = find(key);
    if (value == nullptr) {
      return otherwise;
    }
    if (!value->is_number() || !std::isfinite(value->get<double>())) {
      expected(key, *value, "a number");
    }
    return value->get<double>();
  }

  bool flag(const std::string& key) {
    const Json* const value = find(key);
    if (value != nullptr && !value->is_boolean()) {
      expected(key, *value, "true or false");
    }
    return value != nullptr && value->get<bool>();
  }

  [[noreturn]] void expected(const std::string& key, const Json& value,
                             std::string_view what) const {
    fail("{}: {} is {}, not {}", source_, key, shown(value), what);
  }

  // What nobody asked for must be nothing, or change nothing.
  void refuse_others() const {
    for (const auto& [key, value] : json_.items()) {
      const bool known =
          asked_.contains(key) ||
          std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless);
      check(known || is_nothing(value),
            "{}: {} is {}, which is not supported and might change what the adapter computes",
            source_, key, shown(value));
    }
  }

  static std::string shown(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  const Json& json_;
  const std::string& source_;
  std::set<std::string> asked_;
};

// A regular expression is matched against whole names of layers, those here or other ones.
std::vector<std::string> matching(const std::string& expression, const std::string& source,
                                  const Network& network) {
  constexpr size_t kLongest = 1000;
  check(expression.size() <= kLongest, "{}: target_modules is longer than {} characters", source,
        kLongest);
  std::vector<std::string> out;
  try {
    const std::regex regex(expression);
    for (const LinearLayer& layer : linear_layers([&] { network.specs(); })) {
      if (std::regex_match(layer.path, regex)) {
        out.push_back(layer.path);
      }
    }
    for (const auto& [name, other] : network.other_names()) {
      if (std::regex_match(other, regex)) {
        out.push_back(name);
      }
    }
  } catch (const std::regex_error& error) {
    fail("{}: target_modules is no regular expression that can be read: {}", source, error.what());
  }
  check(!out.empty(), "{}: target_modules {} matches no linear layer of the model", source,
        expression);
  return out;
}

// A list of names, sorted: PEFT writes sets.
std::vector<std::string> names_in(const Json& value, const char* key, const std::string& source) {
  check(value.is_array(), "{}: {} is {}, not a list of names", source, key, Reader::shown(value));
  std::vector<std::string> names;
  for (const Json& name : value) {
    check(name.is_string() && !name.get_ref<const std::string&>().empty(),
          "{}: {} holds {}, not a name", source, key, Reader::shown(name));
    names.push_back(name.get<std::string>());
  }
  std::sort(names.begin(), names.end());
  return names;
}

OrWord<std::vector<std::string>, AllLinearWord> targets_of(const Json& value,
                                                           const std::string& source,
                                                           const Network& network) {
  if (value == AllLinearWord::kText) {
    return {};
  }
  if (value.is_string()) {
    return matching(value.get<std::string>(), source, network);
  }
  return names_in(value, "target_modules", source);
}

// PEFT trains every module whole whose name ends with one of these letters, after a dot or not; here it is after a dot.
std::vector<std::string> modules_for(const std::vector<std::string>& ends, const Network& base,
                                     const std::string& source) {
  std::set<std::string> out(ends.begin(), ends.end());
  for (const std::string& module : modules_of(base)) {
    const bool is_meant = std::any_of(
        ends.begin(), ends.end(), [&](const std::string& end) { return module.ends_with(end); });
    if (is_meant && !ends_with_one_of(module, ends)) {
      out.insert(module);
    }
  }
  for (const std::string& copy : base.copies()) {
    const std::string module = module_of(copy);
    const std::string parameter = base.meaning(copy).name;
    const std::vector<std::string> all(out.begin(), out.end());
    if (ends_with_one_of(module, all)) {
      const std::string of = module_of(parameter);
      check(ends_with_one_of(of, all),
            "{}: modules_to_save has {}, whose weight the model shares with {}: without that one "
            "they would be two",
            source, module, of);
      std::erase_if(out, [&](const std::string& end) {
        return ends_with_one_of(module, std::span(&end, 1)) &&
               !ends_with_one_of(of, std::span(&end, 1));
      });
    }
  }
  return {out.begin(), out.end()};
}

// The shortest ends of names by which PEFT trains whole what `network` does, and nothing else.
std::vector<std::string> ends_for_peft(const AdaptedNetwork& network) {
  const std::vector<std::string> modules = modules_of(network.base());
  std::set<std::string> whole;
  for (const std::string& module : modules) {
    const StoredMeaning is = network.base().meaning(module + ".weight");
    const bool is_copy = is.kind == StoredMeaning::Kind::kCopy;
    const std::string of = is_copy ? module_of(is.name) : module;
    if (ends_with_one_of(of, network.lora().modules_to_save)) {
      whole.insert(module);
    }
  }
  std::set<std::string> ends;
  for (const std::string& module : whole) {
    const auto reaches_others = [&](std::string_view end) {
      return std::any_of(modules.begin(), modules.end(), [&](const std::string& other) {
        return other.ends_with(end) && !whole.contains(other);
      });
    };
    size_t dot = module.rfind('.');
    while (dot != std::string::npos && reaches_others(std::string_view(module).substr(dot + 1))) {
      dot = dot == 0 ? std::string::npos : module.rfind('.', dot - 1);
    }
    ends.insert(dot == std::string::npos ? module : module.substr(dot + 1));
  }
  return {ends.begin(), ends.end()};
}

// What PEFT wraps the model in; null for one that writes no text.
OrderedJson task_type(const Network& network) {
  const std::vector<InputSpec> inputs = network.inputs();
  const auto takes = [&](std::string_view name) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const InputSpec& input) { return input.name == name; });
  };
  if (takes("decoder_input_ids")) {
    return "SEQ_2_SEQ_LM";
  }
  if (network.scores_texts()) {
    return "SEQ_CLS";
  }
  return takes("input_ids") ? OrderedJson("CAUSAL_LM") : OrderedJson();
}

}  // namespace

bool has_adapter(FileSystem& files, const std::string& folder) {
  return files.exists(join_path(folder, kAdapterFile)) ||
         files.exists(join_path(folder, kAdapterConfigFile));
}

SafetensorsFolder adapter_tensors(FileSystem& files, const std::string& folder) {
  return SafetensorsFolder(
      std::make_unique<SafetensorsFile>(files, join_path(folder, kAdapterFile)));
}

std::string adapted_model(const Json& config, const std::string& source) {
  Reader reader(config, source);
  const Json* const base = reader.find("base_model_name_or_path");
  check(base != nullptr && base->is_string() && !base->get_ref<const std::string&>().empty(),
        "{}: base_model_name_or_path, the folder of the model that is adapted, is missing", source);
  return base->get<std::string>();
}

LoraConfig lora_of(const Json& config, const std::string& source,
                   const std::shared_ptr<const Network>& base) {
  Reader reader(config, source);
  const Json* const type = reader.find("peft_type");
  check(type != nullptr && *type == "LORA", "{}: peft_type is {}; supported is LORA", source,
        type == nullptr ? "missing" : Reader::shown(*type));
  LoraConfig lora;
  constexpr double kWidest = 1 << 20;
  const double rank = reader.number("r", 8);
  check(rank >= 1 && rank <= kWidest && rank == std::floor(rank),
        "{}: r is {}, not a positive integer", source, rank);
  lora.rank = static_cast<int64_t>(rank);
  lora.alpha = reader.number("lora_alpha", 8);
  lora.dropout = reader.number("lora_dropout", 0);
  check(lora.dropout >= 0 && lora.dropout < 1, "{}: lora_dropout is {}, not in [0, 1)", source,
        lora.dropout);
  lora.use_rslora = reader.flag("use_rslora");
  if (const Json* bias = reader.find("bias"); bias != nullptr && *bias != "none") {
    reader.expected("bias", *bias, "\"none\", which alone is supported");
  }
  // How the matrices were begun is history, but for ways that change the weights beside them.
  if (const Json* init = reader.find("init_lora_weights")) {
    const bool leaves_weights =
        init->is_boolean() || *init == "gaussian" || *init == "eva" || *init == "orthogonal";
    if (!leaves_weights) {
      reader.expected("init_lora_weights", *init, "a way that leaves the model's own weights");
    }
  }
  const Json* const targets = reader.find("target_modules");
  check(targets != nullptr, "{}: target_modules is missing", source);
  lora.targets = targets_of(*targets, source, *base);
  if (const Json* const modules = reader.find("modules_to_save")) {
    lora.modules_to_save =
        modules_for(names_in(*modules, "modules_to_save", source), *base, source);
  }
  reader.refuse_others();
  try {
    AdaptedNetwork(base, lora).check_targets();
  } catch (const Error& error) {
    fail("{}: {}", source, error.what());
  }
  return lora;
}

std::string adapter_config(const AdaptedNetwork& network, const std::string& base_folder) {
  const LoraConfig& lora = network.lora();
  const std::vector<LinearLayer> layers = network.layers();
  const bool is_transposed = std::any_of(layers.begin(), layers.end(),
                                         [](const LinearLayer& layer) { return !layer.out_first; });
  OrderedJson json;
  json["peft_type"] = "LORA";
  json["task_type"] = task_type(network);
  json["base_model_name_or_path"] = base_folder;
  json["r"] = lora.rank;
  json["lora_alpha"] = lora.alpha;
  json["lora_dropout"] = lora.dropout;
  json["target_modules"] = network.target_names();
  json["bias"] = "none";
  json["fan_in_fan_out"] = is_transposed;
  json["use_rslora"] = lora.use_rslora;
  json["use_dora"] = false;
  json["init_lora_weights"] = true;
  json["inference_mode"] = true;
  const std::vector<std::string> whole = ends_for_peft(network);
  json["modules_to_save"] = whole.empty() ? OrderedJson() : OrderedJson(whole);
  json["rank_pattern"] = OrderedJson::object();
  json["alpha_pattern"] = OrderedJson::object();
  return json.dump(2) + "\n";
}

}  // namespace mstrain
