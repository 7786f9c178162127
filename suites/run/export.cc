#include "suites/run/export.h"

#include <functional>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/data/hf_simple.h"
#include "core/data/tokenizer.h"
#include "core/io/folder.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "suites/run/adapter_files.h"
#include "suites/run/model_run.h"
#include "suites/run/stop_ids.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// What else Hugging Face keeps beside weights; none of it changes them.
constexpr const char* kCompanions[] = {kGenerationConfigFile,   "preprocessor_config.json",
                                       "tokenizer_config.json", "special_tokens_map.json",
                                       "added_tokens.json",     "chat_template.jinja"};
constexpr uint64_t kMaxCompanionBytes = 16 << 20;

void check_output(FileSystem& files, const std::string& output) {
  if (files.exists(output) && (!files.is_directory(output) || !files.list(output).empty())) {
    throw IoError(fmt::format("{}: exists already; name a new directory", output));
  }
}

// The name in config.json of the element type that all tensors have; of several it is the widest.
std::string dtype_name(const std::vector<TensorEntry>& entries) {
  int bytes = 0;
  std::string name = "float32";
  for (const TensorEntry& entry : entries) {
    if (size_of(*entry.dtype) > bytes) {
      bytes = size_of(*entry.dtype);
      name = *entry.dtype == Dtype::kF64    ? "float64"
             : *entry.dtype == Dtype::kF32  ? "float32"
             : *entry.dtype == Dtype::kBF16 ? "bfloat16"
                                            : "float16";
    }
  }
  return name;
}

// The tensors of `weights` that are parameters, by name.
using Items = std::map<std::string, const SafetensorsFolder::Item*>;
Items parameters_in(const SafetensorsFolder& weights, const Network& network) {
  Items parameters;
  const Meaning meaning = meaning_in(weights, network);
  for (const SafetensorsFolder::Item& item : weights.items()) {
    const StoredMeaning is = meaning(item.entry->name);
    if (is.kind == StoredMeaning::Kind::kParameter) {
      parameters[is.name] = &item;
    }
  }
  return parameters;
}

// What the adapter makes of weights, tensor by tensor.
class Merged {
 public:
  Merged(const AdaptedNetwork& network, Params adapter)
      : lora_(network.lora()), adapter_(std::move(adapter)) {
    for (LinearLayer& layer : network.layers()) {
      std::string weight = layer.path + ".weight";
      layers_.emplace(std::move(weight), std::move(layer));
    }
    for (const ParamSpec& spec : network.base().specs()) {
      if (adapter_.find(spec.name) != nullptr) {
        whole_[spec.name] = network.stored_shape(spec.name, spec.type.shape);
      }
    }
  }

  // A weight that is trained whole is the adapter's; its shape is empty where it is none.
  std::optional<Shape> own_shape(const std::string& name) const {
    const auto found = whole_.find(name);
    return found == whole_.end() ? std::nullopt : std::optional(found->second);
  }

  // All of those.
  const std::map<std::string, Shape>& whole() const { return whole_; }

  // Of the element type `dtype`; `stored` is the weight that is adapted.
  Tensor of(const std::string& name, Dtype dtype, std::span<const std::byte> stored,
            const Shape& shape) const {
    if (const Tensor* const own = adapter_.find(name)) {
      return cast(*own, dtype);
    }
    const Tensor weight = tensor_from_bytes(stored.data(), {dtype, shape});
    const auto found = layers_.find(name);
    if (found == layers_.end()) {
      return weight;
    }
    const LinearLayer& layer = found->second;
    const int64_t in = layer.in.elements();
    const int64_t out = layer.out.elements();
    const Tensor a = reshape(*adapter_.find(lora_a_name(layer.path)), {lora_.rank, in});
    const Tensor b = reshape(*adapter_.find(lora_b_name(layer.path)), {out, lora_.rank});
    const Tensor added =
        layer.out_first ? matmul(b, a) : matmul(a, b, {.transpose_a = true, .transpose_b = true});
    return cast(cast(weight, Dtype::kF32) + lora_.scale() * reshape(added, shape), dtype);
  }

 private:
  LoraConfig lora_;
  Params adapter_;
  std::map<std::string, LinearLayer> layers_;  // by the name of the weight
  std::map<std::string, Shape> whole_;         // trained parameters, as they are stored
};

void write_tokenizer(FileSystem& files, const StoredModel& stored, AtomicFolder& folder) {
  std::set<std::string> written;
  if (const auto tokenizer = stored_tokenizer(files, stored)) {
    for (const auto& parts :
         {tokenizer->files(),
          hugging_face_files(*tokenizer, stored.network->tokens_beside(tokenizer))}) {
      for (const TokenizerFile& file : parts) {
        folder.write(file.name, file.bytes);
        written.insert(file.name);
      }
    }
  }
  for (const char* name : kCompanions) {
    for (const StoredModel* from = &stored; from != nullptr; from = from->base.get()) {
      const std::string path = join_path(from->folder, name);
      if (files.exists(path) && written.insert(name).second) {
        folder.write(name, files.read(path, kMaxCompanionBytes));
      }
    }
  }
}

// Writes the parameters of `weights` as `file`, under the names that `names_of` gives. Returns the file's entries.
std::vector<TensorEntry> write_as_they_are(
    AtomicFolder& folder, const char* file, const SafetensorsFolder& weights, const Items& items,
    const std::function<std::vector<std::string>(const std::string&)>& names_of) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  std::map<std::string, const SafetensorsFolder::Item*> by_name;
  for (const auto& [parameter, item] : items) {
    for (const std::string& name : names_of(parameter)) {
      tensors.push_back({name, *item->entry->dtype, item->entry->shape});
      by_name[name] = item;
    }
  }
  SafetensorsWriter writer(folder.create(file), tensors, {{"format", "pt"}});
  for (const TensorEntry& entry : writer.entries()) {
    writer.append(entry.name, weights.data(*by_name.at(entry.name)));
  }
  writer.finish();
  return writer.entries();
}

std::vector<TensorEntry> write_merged(AtomicFolder& folder, const SafetensorsFolder& weights,
                                      const Items& items, const Merged& merged) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const auto& [name, item] : items) {
    const auto own = merged.own_shape(name);
    tensors.push_back({name, *item->entry->dtype,
                       own ? std::vector<int64_t>(own->begin(), own->end()) : item->entry->shape});
  }
  // What training has added, as a head of scores, is in the type of the first of the others.
  const Dtype dtype = items.empty() ? Dtype::kF32 : *items.begin()->second->entry->dtype;
  for (const auto& [name, shape] : merged.whole()) {
    if (!items.contains(name)) {
      tensors.push_back({name, dtype, std::vector<int64_t>(shape.begin(), shape.end())});
    }
  }
  SafetensorsWriter writer(folder.create(kWeightsFile), tensors, {{"format", "pt"}});
  for (const TensorEntry& entry : writer.entries()) {
    const auto item = items.find(entry.name);
    const auto stored =
        item == items.end() ? std::span<const std::byte>() : weights.data(*item->second);
    const Tensor value = dense(merged.of(entry.name, *entry.dtype, stored, Shape(entry.shape)));
    writer.append(entry.name, HostRead(value).bytes());
  }
  writer.finish();
  return writer.entries();
}

}  // namespace

void export_model(FileSystem& files, const std::string& model, const std::string& output,
                  const ExportOptions& how) {
  check_output(files, output);
  const StoredModel stored = open_model(files, model);
  check_params(files, stored);
  const auto* const adapted = dynamic_cast<const AdaptedNetwork*>(stored.network.get());
  if (how.merges && adapted == nullptr) {
    throw IoError(fmt::format("{}: is no adapter: there is nothing to merge", stored.folder));
  }
  if (how.since && model_of(stored.description, stored.folder).export_besides == nullptr) {
    throw IoError(
        fmt::format("--since: {} has no rows, of which some could be left out", stored.folder));
  }
  AtomicFolder folder(files, output);
  if (adapted != nullptr && !how.merges) {
    const SafetensorsFolder weights = adapter_tensors(files, stored.folder);
    write_as_they_are(
        folder, kAdapterFile, weights, parameters_in(weights, *adapted),
        [&](const std::string& name) { return adapter_names(adapted->base(), name); });
    folder.write(kAdapterConfigFile, adapter_config(*adapted, stored.base->folder));
    // The head of another kind than the adapted model's is told by no adapter.
    if (OrderedJson config = stored.network->description(stored.description);
        config != stored.base->network->description(stored.base->description)) {
      folder.write("config.json", config.dump(2) + "\n");
    }
  } else {
    const StoredModel& holder = how.merges ? *stored.base : stored;
    const SafetensorsFolder weights(files, holder.folder);
    const Items items = parameters_in(weights, *holder.network);
    const std::vector<TensorEntry> entries =
        how.merges
            ? write_merged(folder, weights, items, Merged(*adapted, load_adapter(files, stored)))
            : write_as_they_are(folder, kWeightsFile, weights, items,
                                [](const std::string& name) { return std::vector{name}; });
    OrderedJson config = stored.network->description(stored.description);
    config["dtype"] = dtype_name(entries);
    folder.write("config.json", config.dump(2) + "\n");
    if (const auto besides = model_of(holder.description, holder.folder).export_besides) {
      besides(files, holder, folder, how);
    }
  }
  write_tokenizer(files, stored, folder);
  folder.commit();
}

}  // namespace mstrain
