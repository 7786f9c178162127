#include "suites/run/model_run.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "suites/run/adapted_network.h"

namespace mstrain {
namespace {

std::vector<ModelEntry>& all_models() {
  static std::vector<ModelEntry> models;
  return models;
}

template <class NameOf>
std::vector<std::string> names_of_all(const NameOf& names_of) {
  std::vector<std::string> out;
  for (const ModelEntry& entry : all_models()) {
    const std::vector<std::string> names = names_of(entry);
    out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

}  // namespace

void ModelRun::read(const YamlNode& tree) {
  read_config_fields(tree, sections());
  fill_in();
  recheck(tree);
}

void ModelRun::recheck(const YamlNode& tree) const {
  check_train_config(train, tree);
  check(tree);
}

void ModelRun::read_model(const YamlNode& tree) {
  YamlNode section = YamlNode::map();
  section.file = tree.file;
  if (const YamlNode* const model = tree.find("model")) {
    section.add("model", *model);
  }
  ConfigFields fields;
  fields("model", *this, "the network");
  read_config_fields(section, fields);
}

std::string ModelRun::config_json(const Json& source) const {
  OrderedJson description = network()->description(source);
  const ModelEntry& entry = model_of(written());
  const OrderedJson& type = description["model_type"];
  if (std::none_of(entry.hf_types.begin(), entry.hf_types.end(),
                   [&](const std::string& name) { return type == name; })) {
    fail(
        "model.type {}: its network describes itself in config.json by model_type {}, none of "
        "those that its entry reads (hf_types): {}",
        entry.type, type.dump(), fmt::join(entry.hf_types, ", "));
  }
  if (const FloatType type = train.precision.params; type != FloatType::kFp32) {
    description["dtype"] = type == FloatType::kBf16 ? "bfloat16" : "float16";
  }
  return description.dump(2) + "\n";
}

YamlNode ModelRun::written() const {
  // Declares members, and writes through them only when reading.
  return write_config_fields(const_cast<ModelRun*>(this)->sections());
}

std::vector<ConfigKeyDoc> ModelRun::keys() const {
  return document_config_fields(const_cast<ModelRun*>(this)->sections());
}

void ModelRun::fields(ConfigFields& model) {
  declare_model(model);
  model("lora", lora, "low-rank adapters (LoRA) are trained instead of the weights; null: none",
        rule::elsewhere_called({"peft", "peft_config", "use_peft", "adapter"}));
}

ConfigFields ModelRun::sections() {
  ConfigFields fields;
  train.fields_before_model(fields);
  fields("model", *this, "the network");
  declare_data(fields);
  train.fields_after_data(fields);
  return fields;
}

std::shared_ptr<const Network> ModelRun::adapted_network() const {
  return lora ? std::make_shared<AdaptedNetwork>(network(), *lora) : network();
}

void ModelRun::take_adapted_network(const Network& network) {
  const auto* const adapted = dynamic_cast<const AdaptedNetwork*>(&network);
  const AutoOr<WeightCode> base = lora ? lora->base : AutoOr<WeightCode>();
  lora = adapted != nullptr ? std::optional(adapted->lora()) : std::nullopt;
  if (lora) {
    lora->base = base;  // how it is kept is the run's choice
  }
  take_network(adapted != nullptr ? adapted->base() : network);
}

TrainTask ModelRun::adapted_task() const {
  return lora ? adapted(task(), AdaptedNetwork(network(), *lora), train.precision.param_dtype(),
                        static_cast<uint64_t>(train.run.seed))
              : task();
}

void ModelRun::check_adapters(const YamlNode& tree, Findings& findings) const {
  if (!lora) {
    return;
  }
  const AdaptedNetwork adapted(network(), *lora);
  try {
    adapted.check_targets();
  } catch (const Error& error) {
    config_fail(tree, "model.lora", error.what());
  }
  for (const LinearLayer& layer : adapted.layers()) {
    const int64_t smaller = std::min(layer.in.elements(), layer.out.elements());
    if (lora->rank > smaller) {
      findings.push_back(
          fmt::format("{}: {} is more than the smaller side of {}, {}: the adapter has more "
                      "numbers than the ranks of "
                      "the weight can use",
                      config_where(tree, "model.lora.rank"), lora->rank, layer.path, smaller));
      break;
    }
  }
}

Overrides ModelRun::with_layers(int64_t layers) const {
  constexpr const char* kLayers = "model.num_layers";
  return find_config(written(), kLayers) == nullptr
             ? Overrides()
             : Overrides{fmt::format("{}={}", kLayers, layers)};
}

std::vector<Overrides> ModelRun::smaller_samples() const { return {}; }

void add_model(ModelEntry entry) {
  auto& models = all_models();
  const bool is_new = std::none_of(models.begin(), models.end(), [&](const ModelEntry& known) {
    return known.type == entry.type;
  });
  mstrain::check(is_new, "model.type {}: two models have this name", entry.type);
  models.push_back(std::move(entry));
}

const ModelEntry& model_of(const YamlNode& tree) {
  const auto& models = all_models();
  mstrain::check(!models.empty(), "no model is known: call add_all_models() first");
  const YamlNode* const given = find_config(tree, "model.type");
  if (given == nullptr) {
    return models.front();
  }
  for (const ModelEntry& entry : models) {
    if (given->is_scalar() && given->text == entry.type) {
      return entry;
    }
  }
  const std::vector<std::string> known =
      names_of_all([](const ModelEntry& entry) { return std::vector{entry.type}; });
  const std::string text = given->is_scalar() ? given->text : "a section or a list";
  config_fail(tree, "model.type",
              fmt::format("expected one of {}, found {}{}", fmt::join(known, ", "), text,
                          did_you_mean(text, known)));
}

const ModelEntry& model_of(const Json& config_json, const std::string& source) {
  mstrain::check(config_json.is_object(), "{}: is no configuration of a model", source);
  const auto type = config_json.find("model_type");
  mstrain::check(type != config_json.end(), "{}: model_type is missing", source);
  for (const ModelEntry& entry : all_models()) {
    for (const std::string& name : entry.hf_types) {
      if (*type == name) {
        return entry;
      }
    }
  }
  const std::vector<std::string> known =
      names_of_all([](const ModelEntry& entry) { return entry.hf_types; });
  fail("{}: model_type is {}; known are {}{}", source,
       type->dump(-1, ' ', false, Json::error_handler_t::replace), fmt::join(known, ", "),
       type->is_string() ? did_you_mean(type->get<std::string>(), known) : "");
}

std::unique_ptr<ModelRun> read_run(const YamlNode& tree) {
  std::unique_ptr<ModelRun> run = model_of(tree).run();
  run->read(tree);
  return run;
}

}  // namespace mstrain
