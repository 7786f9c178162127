#include "suites/run/stored_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/missing_file.h"
#include "core/base/paths.h"
#include "core/base/written_yaml.h"
#include "core/io/folder.h"
#include "core/train/checkpoint.h"
#include "core/train/run_directory.h"
#include "core/train/sweep.h"
#include "suites/run/adapter_files.h"
#include "suites/run/suite.h"

namespace mstrain {

std::string tokenizer_folder(FileSystem& files, const StoredModel& model) {
  if (has_tokenizer(files, model.folder)) {
    return model.folder;
  }
  return model.base != nullptr ? tokenizer_folder(files, *model.base) : "";
}

namespace {

std::set<std::string> names_of(std::span<const ParamSpec> specs) {
  std::set<std::string> names;
  for (const ParamSpec& spec : specs) {
    names.insert(spec.name);
  }
  return names;
}

using LeavesOut = std::function<bool(const std::string& name)>;

// Throws IoError where the files are not those of the manifest.
void check_manifest(FileSystem& files, const std::string& folder) {
  if (files.exists(join_path(folder, kManifestName))) {
    if (const auto problems = verify_folder(files, folder); !problems.empty()) {
      throw IoError(problems.front());
    }
  }
}

// Throws IoError where the files are not those of the manifest, or could not hold so many layers.
void check_folder(FileSystem& files, const StoredModel& model, const SafetensorsFolder& weights) {
  check_manifest(files, model.folder);
  // Each layer has tensors of its own: a number of layers that no file could hold is not tried.
  const int64_t layers = model.network->num_layers();
  if (layers > static_cast<int64_t>(weights.items().size())) {
    throw IoError(fmt::format("{}: config.json tells of {} layers, the weights are {} tensors",
                              model.folder, layers, weights.items().size()));
  }
}

constexpr auto kAsNumbers = [](const auto&... given) { return load_pretrained(given...); };

// What `use`, which is load_pretrained or check_pretrained, gives for the parameters `specs` of a network, but for those
// that are left out.
template <class Use>
auto with_weights(const SafetensorsFolder& weights, const std::string& folder,
                  const Network& network, std::vector<ParamSpec> specs, const Use& use,
                  const LeavesOut& leaves_out) {
  std::erase_if(specs, [&](const ParamSpec& spec) { return leaves_out(spec.name); });
  const auto meaning = [&, known = meaning_in(weights, network)](const std::string& stored) {
    const StoredMeaning is = known(stored);
    return leaves_out(is.name) ? StoredMeaning{StoredMeaning::Kind::kBuffer} : is;
  };
  return use(weights, folder, specs, stored_shapes(network, specs), meaning);
}

// `reads`, where it is given: which parameters to read.
template <class Use>
auto with_all_weights(FileSystem& files, const StoredModel& model, const Use& use,
                      const std::function<bool(const std::string& name)>& reads = nullptr) {
  const SafetensorsFolder weights(files, model.folder);
  check_folder(files, model, weights);
  const std::vector<ParamSpec> specs = model.network->specs();
  return with_weights(weights, model.folder, *model.network, specs, use,
                      [&, known = names_of(specs)](const std::string& name) {
                        return reads != nullptr && known.contains(name) && !reads(name);
                      });
}

// The same of what an adapter's folder holds.
template <class Use>
auto with_adapter(FileSystem& files, const StoredModel& model, const Use& use) {
  check_manifest(files, model.folder);
  const auto& network = dynamic_cast<const AdaptedNetwork&>(*model.network);
  const std::vector<ParamSpec> specs = trained_specs(network);
  return use(adapter_tensors(files, model.folder), model.folder, specs,
             stored_shapes(network, specs),
             [&](const std::string& stored) { return network.meaning(stored); });
}

// Whether the weights in `folder` hold a tensor of a name.
Holds holds_in(FileSystem& files, const std::string& folder) {
  return [&files, folder](const std::string& stored) {
    const SafetensorsFolder weights(files, folder);
    return std::any_of(
        weights.items().begin(), weights.items().end(),
        [&](const SafetensorsFolder::Item& item) { return item.entry->name == stored; });
  };
}

// The network that `config` tells of. What a model's own code throws is told with the file that it read.
std::shared_ptr<const Network> described(const ModelEntry& entry, const Json& config,
                                         const std::string& path, const Holds& holds) {
  try {
    return entry.describe(config, path, holds);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw IoError(fmt::format("{}: {}", path, error.what()));
  }
}

// A checkpoint of an agent has weights, but is no model of this kind.
void refuse_agent(FileSystem& files, const std::string& folder) {
  const std::string run = join_path(parent_path(parent_path(folder)), kConfigFile);
  if (!files.exists(run)) {
    return;
  }
  if (const RunKind* const kind = run_kind_of(read_written_yaml(files, run))) {
    throw ConfigError(
        fmt::format("{}: is a checkpoint of an agent ({}: `{}` in {}), which mstrain play shows",
                    folder, kind->type, kind->section, run));
  }
}

StoredModel open_plain(FileSystem& files, const std::string& folder) {
  StoredModel out;
  out.folder = folder;
  const std::string config = join_path(out.folder, "config.json");
  if (!files.exists(config)) {
    refuse_agent(files, folder);
  }
  out.description = parse_json(files.read(config, 16 << 20), config);
  out.description_path = config;
  const ModelEntry& entry = model_of(out.description, config);
  out.type = entry.type;
  out.network = described(entry, out.description, config, holds_in(files, folder));
  return out;
}

// PEFT trains a weight that is used once more apart from that use, unless the adapter holds both.
void check_copies(const SafetensorsFolder& adapter, const LoraConfig& lora, const Network& network,
                  const std::string& source) {
  for (const ParamSpec& spec : network.specs()) {
    if (!lora.trains(spec.name)) {
      continue;
    }
    const std::vector<std::string> names = adapter_names(network, spec.name);
    for (const std::string& name : std::span(names).subspan(1)) {
      const bool is_there = std::any_of(
          adapter.items().begin(), adapter.items().end(),
          [&](const SafetensorsFolder::Item& item) { return item.entry->name == name; });
      check(is_there,
            "{}: modules_to_save trains {}, but the weights beside it have no {}: in PEFT the "
            "model would use two weights where it has one, which is not supported",
            source, spec.name, name);
    }
  }
}

// The folder that an adapter's base_model_name_or_path means: as it stands, or, of a relative one that is not here, below the
// nearest folder above the adapter's, where whoever trained it was.
std::string base_of(FileSystem& files, const std::string& adapter, const std::string& named,
                    const std::string& source) {
  if (files.exists(named)) {
    return named;
  }
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path home = fs::absolute(adapter, error).lexically_normal();
  for (fs::path above = home; !error && fs::path(named).is_relative();
       above = above.parent_path()) {
    const std::string found = (above / named).lexically_normal().string();
    if (files.exists(found)) {
      log_info("{}: base_model_name_or_path {} is {}", source, named, found);
      return found;
    }
    if (above == above.parent_path()) {
      break;
    }
  }
  throw IoError(fmt::format(
      "{}: base_model_name_or_path is {}, which is no folder here{}; write there where "
      "the model that is adapted lies",
      source, named,
      fs::path(named).is_relative() ? fmt::format(" ({}), in {} or in any folder above it",
                                                  fs::current_path(error).string(), home.string())
                                    : ""));
}

StoredModel open_adapter(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kAdapterConfigFile);
  const Json config = parse_json(files.read(path, 1 << 20), path);
  const std::string adapted = adapted_model(config, path);
  const std::string base = find_checkpoint(files, base_of(files, folder, adapted, path));
  if (!has_safetensors(files, base)) {
    throw IoError(fmt::format("{}: base_model_name_or_path is {}, an adapter itself", path, base));
  }
  StoredModel out;
  out.folder = folder;
  out.base = std::make_shared<const StoredModel>(open_plain(files, base));
  out.type = out.base->type;
  // Its own config.json may tell of other labels.
  const std::string own = join_path(folder, "config.json");
  const bool has_own = files.exists(own);
  out.description = has_own ? parse_json(files.read(own, 16 << 20), own) : out.base->description;
  out.description_path = has_own ? own : out.base->description_path;
  std::shared_ptr<const Network> network = out.base->network;
  if (has_own) {
    const ModelEntry& entry = model_of(out.description, own);
    if (entry.type != out.type) {
      throw IoError(
          fmt::format("{}: a {} does not adapt the {} in {}", own, entry.type, out.type, base));
    }
    network = described(entry, out.description, own, holds_in(files, base));
  }
  const LoraConfig lora = lora_of(config, path, network);
  check_copies(adapter_tensors(files, folder), lora, *network, path);
  out.network = std::make_shared<AdaptedNetwork>(std::move(network), lora);
  return out;
}

}  // namespace

std::string find_checkpoint(FileSystem& files, const std::string& path) {
  if (has_safetensors(files, path) || has_adapter(files, path)) {
    return path;
  }
  const std::string checkpoints = join_path(path, "checkpoints");
  for (const std::string& directory : {checkpoints, path}) {
    if (const auto found = newest_checkpoint(files, directory, /*set_aside=*/false)) {
      return *found;
    }
  }
  check_exists(files, path);
  if (files.exists(join_path(path, "config.json"))) {
    const SafetensorsFolder weights(files, path);  // says what is missing
  }
  if (const std::string sweep = join_path(path, kSweepFile); files.exists(sweep)) {
    const Json best = parse_json(files.read(sweep), sweep).value("best", Json("000"));
    throw IoError(fmt::format("{}: is a sweep; name one of its runs, such as {}", path,
                              join_path(join_path(path, "runs"), best.get<std::string>())));
  }
  throw IoError(
      fmt::format("{}: holds no checkpoint: neither {} nor checkpoints/step-…", path, kModelFile),
      ENOENT);
}

StoredModel open_model(FileSystem& files, const std::string& path) {
  const std::string folder = find_checkpoint(files, path);
  return has_adapter(files, folder) ? open_adapter(files, folder) : open_plain(files, folder);
}

std::shared_ptr<const Tokenizer> stored_tokenizer(FileSystem& files, const StoredModel& model) {
  const std::string folder = tokenizer_folder(files, model);
  return folder.empty() ? nullptr : load_tokenizer(files, folder);
}

Params load_params(FileSystem& files, const StoredModel& model, std::optional<WeightCode> code,
                   const std::function<bool(const std::string& name)>& reads) {
  const auto check_code = [&](std::span<const ParamSpec> specs) {
    check(!code || std::any_of(specs.begin(), specs.end(),
                               [](const ParamSpec& spec) { return spec.matrix.has_value(); }),
          "{}: a {} has no weights that are kept in {}", model.folder, model.type,
          code ? name_of(*code) : "f32");
  };
  if (model.base == nullptr) {
    return with_all_weights(
        files, model,
        [&](const SafetensorsFolder& weights, const std::string& folder,
            std::span<const ParamSpec> specs, const auto&... more) {
          check_code(specs);
          return load_pretrained(weights, folder, specs, more..., code);
        },
        reads);
  }
  const auto& network = dynamic_cast<const AdaptedNetwork&>(*model.network);
  const std::vector<ParamSpec> frozen = frozen_specs(network, Dtype::kF32);
  check_code(frozen);
  return joined(initial_params(files, *model.base, network, 0, frozen, code),
                load_adapter(files, model));
}

void check_params(FileSystem& files, const StoredModel& model) {
  if (model.base == nullptr) {
    with_all_weights(files, model, check_pretrained);
    return;
  }
  check_initial_params(files, *model.base);
  with_adapter(files, model, check_pretrained);
}

Params load_adapter(FileSystem& files, const StoredModel& adapter) {
  return with_adapter(files, adapter, kAsNumbers);
}

Params initial_params(FileSystem& files, const StoredModel& model, const Network& network,
                      uint64_t seed) {
  return initial_params(files, model, network, seed, network.specs());
}

Params initial_params(FileSystem& files, const StoredModel& model, const Network& network,
                      uint64_t seed, std::span<const ParamSpec> specs,
                      std::optional<WeightCode> code) {
  const SafetensorsFolder weights(files, model.folder);
  check_folder(files, model, weights);
  const Meaning meaning = meaning_in(weights, network);
  // Null where it is not there.
  const auto find_stored = [&](const ParamSpec& spec) {
    const auto found = std::find_if(weights.items().begin(), weights.items().end(),
                                    [&](const SafetensorsFolder::Item& item) {
                                      return meaning(item.entry->name).name == spec.name;
                                    });
    return found == weights.items().end() ? nullptr : found->entry;
  };
  std::vector<ParamSpec> anew;
  std::set<std::string> read;
  for (const ParamSpec& spec : specs) {
    const TensorEntry* const there = network.redraws(spec.name) ? find_stored(spec) : nullptr;
    const Shape shape = network.stored_shape(spec.name, spec.type.shape);
    if (!network.redraws(spec.name) ||
        (there != nullptr && std::ranges::equal(there->shape, shape))) {
      read.insert(spec.name);
      continue;
    }
    if (there != nullptr) {
      log_info("{}: {} is [{}], and {} is needed; it is drawn anew", model.folder, spec.name,
               fmt::join(there->shape, ", "), to_string(shape));
    } else if (!is_lora(spec.name)) {
      log_info("{}: {} {} is not there; it is drawn anew", model.folder, spec.name,
               to_string(spec.type.shape));
    }
    anew.push_back(spec);
  }
  const Params drawn = drawn_params(anew, seed, code);
  const Params stored = with_weights(
      weights, model.folder, network, {specs.begin(), specs.end()},
      [&](const auto&... given) { return load_pretrained(given..., code); },
      [&, known = names_of(network.specs())](const std::string& name) {
        return known.contains(name) && !read.contains(name);
      });
  Params out;
  for (const ParamSpec& spec : specs) {
    const std::string name = code && spec.matrix ? coded_name(spec.name, *code) : spec.name;
    out.set(name, *(read.contains(spec.name) ? stored : drawn).find(name));
  }
  return out;
}

void check_initial_params(FileSystem& files, const StoredModel& model) {
  if (model.base != nullptr) {
    check_params(files, model);
    return;
  }
  const SafetensorsFolder weights(files, model.folder);
  check_folder(files, model, weights);
  const Network& network = *model.network;
  with_weights(weights, model.folder, network, network.specs(), check_pretrained,
               [&](const std::string& name) { return network.redraws(name); });
}

Meaning meaning_in(const SafetensorsFolder& weights, const Network& network) {
  std::map<std::string, std::string> holders;  // the tensor that is the parameter, by our name
  for (const SafetensorsFolder::Item& item : weights.items()) {
    const StoredMeaning is = network.meaning(item.entry->name);
    if (is.kind == StoredMeaning::Kind::kParameter) {
      holders[is.name] = item.entry->name;
    }
  }
  for (const SafetensorsFolder::Item& item : weights.items()) {
    const StoredMeaning is = network.meaning(item.entry->name);
    if (is.kind == StoredMeaning::Kind::kCopy) {
      holders.emplace(is.name, item.entry->name);
    }
  }
  return [&network, holders = std::move(holders)](const std::string& stored) {
    StoredMeaning is = network.meaning(stored);
    if (is.kind == StoredMeaning::Kind::kCopy && holders.at(is.name) == stored) {
      is.kind = StoredMeaning::Kind::kParameter;
    }
    return is;
  };
}

std::map<std::string, std::string> stored_names(FileSystem& files, const StoredModel& model) {
  std::map<std::string, std::string> names;
  if (model.base != nullptr) {
    names = stored_names(files, *model.base);
  }
  const SafetensorsFolder weights = model.base != nullptr ? adapter_tensors(files, model.folder)
                                                          : SafetensorsFolder(files, model.folder);
  const Meaning meaning = meaning_in(weights, *model.network);
  for (const SafetensorsFolder::Item& item : weights.items()) {
    const StoredMeaning is = meaning(item.entry->name);
    if (is.kind == StoredMeaning::Kind::kParameter) {
      names[is.name] = item.entry->name;
    }
  }
  return names;
}

}  // namespace mstrain
