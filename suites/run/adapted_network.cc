#include "suites/run/adapted_network.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

// What follows the name of the layer: "lora_A.weight".
constexpr std::string_view kRole = "lora_?.weight";

class AdaptedWriter final : public TextWriter {
 public:
  AdaptedWriter(std::unique_ptr<TextWriter> writer, const LoraConfig& lora)
      : writer_(std::move(writer)), lora_(lora) {}

  std::vector<std::string> generate(const Params& params, std::span<const std::string> prompts,
                                    const WriteOptions& options, const OnText& on_text) override {
    const LoraScope scope(&lora_);
    std::vector<std::string> texts = writer_->generate(params, prompts, options, on_text);
    cut_ = writer_->cut();
    outgrown_ = writer_->outgrown();
    return texts;
  }
  int64_t conversation_tokens() const override { return writer_->conversation_tokens(); }
  std::string reply(const Params& params, std::span<const int32_t> conversation,
                    const WriteOptions& options, const OnText& on_text) override {
    const LoraScope scope(&lora_);
    std::string text = writer_->reply(params, conversation, options, on_text);
    cut_ = writer_->cut();
    return text;
  }
  bool searches_beams() const override { return writer_->searches_beams(); }
  std::string_view separator() const override { return writer_->separator(); }

 private:
  std::unique_ptr<TextWriter> writer_;
  LoraConfig lora_;
};

std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

bool ends_one(const std::string& name, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return ends_with_one_of(path, std::span(&name, 1));
  });
}

// Each of `given` must be the end of one of `paths`.
void check_names(std::string_view what, const std::vector<std::string>& given,
                 const std::vector<std::string>& paths) {
  std::set<std::string> words;
  for (const std::string& path : paths) {
    words.insert(last_word(path));
  }
  const std::vector<std::string> known(words.begin(), words.end());
  for (const std::string& name : given) {
    mstrain::check(ends_one(name, paths), "no {} of the model is called {}{}; they are called {}",
                   what, name, did_you_mean(name, known), fmt::join(known, ", "));
  }
}

// Throws where a target is one of `modules`, or a copy of one, that gets no adapter: what to say instead.
void refuse_other_module(const Network& network, const std::string& target,
                         const std::vector<std::string>& modules) {
  std::string whole = ends_one(target, modules) ? target : "";
  for (const std::string& copy : network.copies()) {
    if (whole.empty() && ends_one(target, {module_of(copy)})) {
      whole = last_word(module_of(network.meaning(copy).name));
    }
  }
  mstrain::check(whole.empty(),
                 "{} gets no adapter: linear layers do, but for the model's head; modules_to_save: "
                 "[{}] trains it whole",
                 target, whole);
}

// The weights that training keeps in codes.
std::set<std::string> coded_weights(const AdaptedNetwork& network) {
  std::set<std::string> names;
  if (!network.lora().base.is_word()) {
    for (const LinearLayer& layer : linear_layers([&] { network.base().specs(); })) {
      names.insert(layer.path + ".weight");
    }
    for (const ParamSpec& spec : trained_specs(network)) {
      names.erase(spec.name);
    }
  }
  return names;
}

// Of a weight that products read, the first dim of what comes out; what is summed over begins with the other end's.
int first_out(const ParamSpec& weight) {
  return weight.matrix->out_first ? 0 : weight.matrix->in_dims;
}

int first_in(const ParamSpec& weight) {
  return weight.matrix->out_first ? weight.type.shape.rank() - weight.matrix->in_dims : 0;
}

// Ranks share an adapter as they share the weight that it adapts: A, [rank, in...], by what is summed over, or B, [out..., rank], by
// what comes out.
void share_adapters(std::vector<ParamSpec>& specs) {
  constexpr std::string_view kWeight = ".weight";
  std::map<std::string, ParamSpec> weights;
  for (const ParamSpec& spec : specs) {
    if (spec.matrix && spec.shared_dim && spec.name.ends_with(kWeight)) {
      weights.emplace(spec.name.substr(0, spec.name.size() - kWeight.size()), spec);
    }
  }
  for (ParamSpec& spec : specs) {
    if (!is_lora(spec.name)) {
      continue;
    }
    const auto weight = weights.find(spec.name.substr(0, spec.name.size() - kRole.size() - 1));
    if (weight == weights.end()) {
      continue;
    }
    const int dim = *weight->second.shared_dim;
    const int in = dim - first_in(weight->second);
    const bool sums = in >= 0 && in < weight->second.matrix->in_dims;
    if (sums == spec.name.ends_with(lora_a_name(""))) {
      spec.shared_dim = sums ? 1 + in : dim - first_out(weight->second);
      spec.parts = weight->second.parts;
    }
  }
}

// Ranks share its rows where those of a rank are neighbours; else each has all of them.
ParamSpec coded_spec(ParamSpec spec, WeightCode code) {
  const Weight weight{.values = {}, .shape = spec.type.shape, .form = *spec.matrix, .code = code};
  const bool shares_rows =
      spec.shared_dim == first_out(spec) && spec.parts != PartsOfDim::kWholeIfFewer;
  spec.shared_dim = shares_rows ? std::optional(0) : std::nullopt;
  spec.parts = shares_rows ? spec.parts : PartsOfDim::kDividing;
  spec.name = coded_name(spec.name, code);
  spec.type = {Dtype::kU8, {weight.out().elements(), code_row_bytes(code, weight.in().elements())}};
  return spec;
}

}  // namespace

AdaptedNetwork::AdaptedNetwork(std::shared_ptr<const Network> base, const LoraConfig& lora)
    : base_(std::move(base)), lora_(lora) {
  if (lora.targets.is_word()) {
    return;
  }
  const auto others = base_->other_names();
  std::vector<std::string> own;
  std::vector<std::string> translated;
  for (const std::string& target : *lora.targets.value) {
    if (ends_with_one_of(target, lora.modules_to_save)) {
      continue;  // as PEFT writes all-linear: what is trained whole has no adapter
    }
    const size_t before = translated.size();
    for (const auto& [name, other] : others) {
      if (ends_with_one_of(other, std::span(&target, 1))) {
        translated.push_back(name);
      }
    }
    if (translated.size() == before) {
      own.push_back(target);
    }
  }
  std::erase_if(translated, [&](const std::string& name) { return ends_with_one_of(name, own); });
  own.insert(own.end(), translated.begin(), translated.end());
  lora_.targets = std::move(own);
}

std::vector<LinearLayer> AdaptedNetwork::layers() const {
  std::vector<LinearLayer> layers = linear_layers([&] { base_->specs(); });
  std::erase_if(layers, [&](const LinearLayer& layer) { return !lora_.adapts(layer.path); });
  return layers;
}

void AdaptedNetwork::check_targets() const {
  std::vector<std::string> modules;
  for (const ParamSpec& spec : base_->specs()) {
    modules.push_back(module_of(spec.name));
  }
  if (!lora_.targets.is_word()) {
    std::vector<std::string> layers;
    for (const LinearLayer& layer : linear_layers([&] { base_->specs(); })) {
      layers.push_back(layer.path);
    }
    mstrain::check(!lora_.targets.value->empty(), "model.lora.targets names no layer{}",
                   lora_.modules_to_save.empty()
                       ? ""
                       : " but of modules_to_save, which are trained whole and get no adapter");
    for (const std::string& name : *lora_.targets.value) {
      if (!ends_one(name, layers)) {
        refuse_other_module(*base_, name, modules);
      }
    }
    check_names("linear layer", *lora_.targets.value, layers);
  }
  check_names("module with weights", lora_.modules_to_save, modules);
}

std::vector<std::string> AdaptedNetwork::target_names() const {
  std::set<std::string> names;
  if (!lora_.targets.is_word()) {
    names.insert(lora_.targets.value->begin(), lora_.targets.value->end());
  } else {
    for (const LinearLayer& layer : layers()) {
      names.insert(last_word(layer.path));
    }
  }
  return {names.begin(), names.end()};
}

std::vector<ParamSpec> AdaptedNetwork::specs() const {
  const LoraScope scope(&lora_);
  std::vector<ParamSpec> specs = base_->specs();
  share_adapters(specs);
  return specs;
}

Shape AdaptedNetwork::stored_shape(const std::string& name, const Shape& shape) const {
  if (!is_lora(name)) {
    return base_->stored_shape(name, shape);
  }
  const int64_t rank = lora_.rank;
  const int64_t width = shape.elements() / rank;
  return name.ends_with(lora_a_name("")) ? Shape{rank, width} : Shape{width, rank};
}

StoredMeaning AdaptedNetwork::meaning(const std::string& stored) const {
  std::string_view name = stored;
  if (!name.starts_with(kPrefix)) {
    return base_->meaning(stored);
  }
  name.remove_prefix(kPrefix.size());
  if (!is_lora(name)) {
    return base_->meaning(std::string(name));
  }
  // A layer is called as its weight is.
  constexpr std::string_view kWeight = "weight";
  const std::string_view role = name.substr(name.size() - kRole.size());
  const std::string_view layer = name.substr(0, name.size() - kRole.size());
  StoredMeaning weight = base_->meaning(std::string(layer).append(kWeight));
  if (weight.kind != StoredMeaning::Kind::kParameter || !weight.name.ends_with(kWeight)) {
    return {};
  }
  weight.name.resize(weight.name.size() - kWeight.size());
  weight.name.append(role);
  return weight;
}

YamlNode AdaptedNetwork::section() const {
  YamlNode section = base_->section();
  section.add("lora", write_config(lora_));
  return section;
}

std::vector<std::pair<std::string, std::string>> AdaptedNetwork::identity() const {
  LoraConfig chosen = lora_;
  chosen.targets = target_names();
  YamlNode section = YamlNode::map();
  section.add("lora", write_config(chosen));
  auto keys = base_->identity();
  const auto own = weight_keys(section, [](const std::string& key) {
    return key == "model.lora.dropout" || key == "model.lora.base";
  });
  keys.insert(keys.end(), own.begin(), own.end());
  return keys;
}

Computed AdaptedNetwork::compute(const Params& params, const NamedTensors& inputs) const {
  const LoraScope scope(&lora_);
  return base_->compute(params, inputs);
}

std::unique_ptr<TextWriter> AdaptedNetwork::writer(std::shared_ptr<const Tokenizer> tokenizer,
                                                   Execution execution) const {
  auto writer = base_->writer(std::move(tokenizer), execution);
  return writer == nullptr ? nullptr : std::make_unique<AdaptedWriter>(std::move(writer), lora_);
}

std::vector<std::string> adapter_names(const Network& network, const std::string& parameter) {
  std::vector<std::string> out{std::string(kPrefix) + parameter};
  for (const std::string& copy : network.copies()) {
    if (network.meaning(copy).name == parameter) {
      out.push_back(std::string(kPrefix) + copy);
    }
  }
  return out;
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

std::vector<std::string> modules_of(const Network& network) {
  std::set<std::string> out;
  for (const ParamSpec& spec : network.specs()) {
    out.insert(module_of(spec.name));
  }
  for (const std::string& copy : network.copies()) {
    out.insert(module_of(copy));
  }
  return {out.begin(), out.end()};
}

std::vector<ParamSpec> trained_specs(const AdaptedNetwork& network) {
  std::vector<ParamSpec> specs = network.specs();
  std::erase_if(specs, [&](const ParamSpec& spec) { return !network.lora().trains(spec.name); });
  return specs;
}

std::vector<ParamSpec> frozen_specs(const AdaptedNetwork& network, Dtype dtype) {
  const bool has_code = !network.lora().base.is_word();
  const std::set<std::string> coded = coded_weights(network);
  std::vector<ParamSpec> specs = network.specs();
  std::erase_if(specs, [&](const ParamSpec& spec) { return network.lora().trains(spec.name); });
  for (ParamSpec& spec : specs) {
    const bool is_coded = coded.contains(spec.name);
    spec.type.dtype = is_coded ? Dtype::kF32 : dtype;
    if (has_code && !is_coded) {
      spec.matrix.reset();
    }
  }
  return specs;
}

Params drawn_params(std::span<const ParamSpec> specs, uint64_t seed,
                    std::optional<WeightCode> code) {
  Params params;
  for (const ParamSpec& spec : specs) {
    const Params one = init_params(std::span(&spec, 1), seed);
    params = joined(std::move(params), code ? in_code(*code, one, std::span(&spec, 1)) : one);
  }
  return params;
}

TrainTask adapted(TrainTask task, const AdaptedNetwork& network, Dtype dtype, uint64_t seed) {
  task.parameters = trained_specs(network);
  task.stored_shapes = stored_shapes(network, task.parameters);
  task.stored_file = kAdapterFile;
  std::map<std::string, std::vector<std::string>> names;
  for (const ParamSpec& spec : task.parameters) {
    names[spec.name] = adapter_names(network.base(), spec.name);
  }
  task.stored_names = [names = std::move(names)](const std::string& name) {
    return names.at(name);
  };
  task.frozen.clear();
  task.frozen_numbers = 0;
  const std::optional<WeightCode> code = network.lora().base.value;
  const std::vector<ParamSpec> frozen = frozen_specs(network, dtype);
  for (const ParamSpec& spec : frozen) {
    *task.frozen_numbers += spec.type.elements();
    task.frozen.push_back(code && spec.matrix ? coded_spec(spec, *code) : spec);
  }
  task.frozen_weights = [frozen, seed, code] { return drawn_params(frozen, seed, code); };
  const auto in_scope = [lora = network.lora()](auto sums) {
    return [sums = std::move(sums), lora](const Params& params, std::span<const Tensor> batch) {
      const LoraScope scope(&lora);
      return sums(params, batch);
    };
  };
  task.sums = in_scope(std::move(task.sums));
  if (task.in_parts != nullptr) {
    task.in_parts = [in_parts = std::move(task.in_parts), in_scope](const StepRange& steps,
                                                                    int64_t parts) {
      std::vector<TrainTask> out = in_parts(steps, parts);
      for (TrainTask& part : out) {
        part.sums = in_scope(std::move(part.sums));
      }
      return out;
    };
  }
  return task;
}

}  // namespace mstrain
