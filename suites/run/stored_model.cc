#include "suites/run/stored_model.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/missing_file.h"
#include "core/base/paths.h"
#include "core/io/folder.h"
#include "core/train/checkpoint.h"
#include "core/train/sweep.h"

namespace mstrain {
namespace {

// `over` replaces what it names in `under`.
void lay_over(YamlNode& under, const YamlNode& over) {
  for (const YamlNode& child : over.children) {
    YamlNode* const below = under.find(child.key);
    if (below == nullptr) {
      under.add(child.key, child);
    } else if (below->is_map() && child.is_map()) {
      lay_over(*below, child);
    } else {
      *below = child;
    }
  }
}

void set_place(YamlNode& node, const YamlNode& of) {
  node.file = of.file;
  node.line = of.line;
  for (YamlNode& child : node.children) {
    set_place(child, of);
  }
}

void compare(const YamlNode& tree, const Network& given, const Network& stored,
             const std::string& source) {
  const auto mine = given.identity();
  const auto theirs = stored.identity();
  for (size_t i = 0; i < mine.size(); ++i) {
    const auto& [key, value] = mine[i];
    if (value != theirs[i].second) {
      config_fail(tree, key,
                  fmt::format("{} differs from {} in {}; leave it out to take that", value,
                              theirs[i].second, source));
    }
  }
}

using LeavesOut = std::function<bool(const std::string& name)>;

// Throws IoError where the files are not those of the manifest, or could not hold so many layers.
void check_folder(FileSystem& files, const StoredModel& model, const SafetensorsFolder& weights) {
  if (files.exists(join_path(model.folder, kManifestName))) {
    if (const auto problems = verify_folder(files, model.folder); !problems.empty()) {
      throw IoError(problems.front());
    }
  }
  // Each layer has tensors of its own: a number of layers that no file could hold is not tried.
  const int64_t layers = model.network->num_layers();
  if (layers > static_cast<int64_t>(weights.items().size())) {
    throw IoError(fmt::format("{}: config.json tells of {} layers, the weights are {} tensors",
                              model.folder, layers, weights.items().size()));
  }
}

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

template <class Use>
auto with_all_weights(FileSystem& files, const StoredModel& model, const Use& use) {
  const SafetensorsFolder weights(files, model.folder);
  check_folder(files, model, weights);
  return with_weights(weights, model.folder, *model.network, model.network->specs(), use,
                      [](const std::string&) { return false; });
}

}  // namespace

std::string find_checkpoint(FileSystem& files, const std::string& path) {
  if (has_safetensors(files, path)) {
    return path;
  }
  const std::string checkpoints = join_path(path, "checkpoints");
  for (const std::string& directory : {checkpoints, path}) {
    if (const auto found = newest_checkpoint(files, directory, /*set_aside=*/false)) {
      return *found;
    }
  }
  if (!files.exists(path)) {
    fail_missing(files, path);
  }
  if (files.exists(join_path(path, "config.json"))) {
    const SafetensorsFolder weights(files, path);  // says what is missing
  }
  if (const std::string sweep = join_path(path, kSweepFile); files.exists(sweep)) {
    const Json best = parse_json(files.read(sweep), sweep).value("best", Json("000"));
    throw IoError(fmt::format("{}: is a sweep; name one of its runs, such as {}", path,
                              join_path(join_path(path, "runs"), best.get<std::string>())));
  }
  throw IoError(
      fmt::format("{}: holds no checkpoint: neither {} nor checkpoints/step-…", path, kModelFile));
}

StoredModel open_model(FileSystem& files, const std::string& path) {
  StoredModel out;
  out.folder = find_checkpoint(files, path);
  const std::string config = join_path(out.folder, "config.json");
  out.description = parse_json(files.read(config, 16 << 20), config);
  const ModelEntry& entry = model_of(out.description, config);
  out.type = entry.type;
  const auto holds = [&](const std::string& stored) {
    const SafetensorsFolder weights(files, out.folder);
    return std::any_of(
        weights.items().begin(), weights.items().end(),
        [&](const SafetensorsFolder::Item& item) { return item.entry->name == stored; });
  };
  out.network = entry.describe(out.description, config, holds);
  return out;
}

std::shared_ptr<const Tokenizer> stored_tokenizer(FileSystem& files, const StoredModel& model) {
  return has_tokenizer(files, model.folder) ? load_tokenizer(files, model.folder) : nullptr;
}

Params load_params(FileSystem& files, const StoredModel& model) {
  return with_all_weights(files, model, load_pretrained);
}

void check_params(FileSystem& files, const StoredModel& model) {
  with_all_weights(files, model, check_pretrained);
}

Params initial_params(FileSystem& files, const StoredModel& model, const Network& network,
                      uint64_t seed) {
  const SafetensorsFolder weights(files, model.folder);
  check_folder(files, model, weights);
  const std::vector<ParamSpec> specs = network.specs();
  const Meaning meaning = meaning_in(weights, network);
  const auto is_there = [&](const ParamSpec& spec) {
    const Shape shape = network.stored_shape(spec.name, spec.type.shape);
    return std::any_of(weights.items().begin(), weights.items().end(),
                       [&](const SafetensorsFolder::Item& item) {
                         return meaning(item.entry->name).name == spec.name &&
                                std::ranges::equal(item.entry->shape, shape);
                       });
  };
  std::vector<ParamSpec> anew;
  for (const ParamSpec& spec : specs) {
    if (network.redraws(spec.name) && !is_there(spec)) {
      log_info("{}: {} {} is not there; it is drawn anew", model.folder, spec.name,
               to_string(spec.type.shape));
      anew.push_back(spec);
    }
  }
  const Params drawn = init_params(anew, seed);
  const auto is_drawn = [&](const std::string& name) { return drawn.find(name) != nullptr; };
  const Params stored =
      with_weights(weights, model.folder, network, specs, load_pretrained, is_drawn);
  Params out;
  for (const ParamSpec& spec : specs) {
    out.set(spec.name, *(is_drawn(spec.name) ? drawn : stored).find(spec.name));
  }
  return out;
}

void check_initial_params(FileSystem& files, const StoredModel& model) {
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
  const SafetensorsFolder weights(files, model.folder);
  const Meaning meaning = meaning_in(weights, *model.network);
  for (const SafetensorsFolder::Item& item : weights.items()) {
    const StoredMeaning is = meaning(item.entry->name);
    if (is.kind == StoredMeaning::Kind::kParameter) {
      names[is.name] = item.entry->name;
    }
  }
  return names;
}

std::optional<std::string> begins_with(const YamlNode& tree) {
  const YamlNode* const from = find_config(tree, "model.init.from");
  if (from == nullptr || from->is_null()) {
    return {};
  }
  return expand_home(as_string(*from, "model.init.from"));
}

YamlNode with_stored_model(FileSystem& files, YamlNode tree) {
  const std::optional<std::string> path = begins_with(tree);
  if (!path) {
    return tree;
  }
  StoredModel stored;
  try {
    stored = open_model(files, *path);
  } catch (const Error& error) {
    config_fail(tree, "model.init.from", error.what());
  }
  if (find_config(tree, "model.type") != nullptr && model_of(tree).type != stored.type) {
    config_fail(
        tree, "model.type",
        fmt::format("{} differs from {} in {}; leave it out to take that", model_of(tree).type,
                    stored.type, join_path(stored.folder, "config.json")));
  }
  YamlNode& model = *tree.find("model");
  YamlNode given = model;
  std::erase_if(given.children,
                [](const YamlNode& key) { return key.is_scalar() && key.text == "auto"; });
  YamlNode merged = stored.network->section();
  merged.key = model.key;
  merged.file = model.file;
  merged.line = model.line;
  lay_over(merged, given);
  model = std::move(merged);
  const std::unique_ptr<ModelRun> both = model_of(tree).run();
  both->read_model(tree);
  compare(tree, *both->network(), *stored.network, join_path(*path, "config.json"));
  YamlNode* const data = tree.find("data");
  if (data != nullptr && data->is_map() && data->find("tokenizer") == nullptr &&
      has_tokenizer(files, stored.folder)) {
    YamlNode& tokenizer = data->add("tokenizer", YamlNode::map());
    tokenizer.add("type", YamlNode::string("hf"));
    tokenizer.add("path", YamlNode::string(stored.folder));
    set_place(tokenizer, *find_config(tree, "model.init.from"));
  }
  return tree;
}

}  // namespace mstrain
