// What a stored model makes of a configuration that begins with it, or is evaluated with it.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/paths.h"
#include "core/train/checkpoint.h"
#include "suites/run/adapter_files.h"
#include "suites/run/stored_model.h"
#include "suites/run/suite.h"

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

// Where a folder says what is called `key` here.
std::string source_of(const std::string& key, const StoredModel& stored) {
  static const std::map<std::string, std::string> kAdapterKeys{
      {"model.lora.rank", "r"},
      {"model.lora.alpha", "lora_alpha"},
      {"model.lora.targets", "target_modules"},
      {"model.lora.use_rslora", "use_rslora"},
      {"model.lora.modules_to_save", "modules_to_save"}};
  const auto adapter = kAdapterKeys.find(key);
  return adapter == kAdapterKeys.end()
             ? stored.description_path
             : fmt::format("{} ({})", join_path(stored.folder, kAdapterConfigFile),
                           adapter->second);
}

void compare(const YamlNode& tree, const Network& given, const StoredModel& model) {
  const auto mine = given.identity();
  const auto theirs = model.network->identity();
  for (const auto& [key, value] : mine) {
    const auto other = std::find_if(theirs.begin(), theirs.end(),
                                    [&](const auto& each) { return each.first == key; });
    if (other != theirs.end() && value != other->second) {
      config_fail(tree, key,
                  fmt::format("{} differs from {} in {}; leave it out to take that", value,
                              other->second, source_of(key, model)));
    }
  }
}

void check_type(const YamlNode& tree, const StoredModel& stored) {
  if (find_config(tree, "model.type") != nullptr && model_of(tree).type != stored.type) {
    config_fail(tree, "model.type",
                fmt::format("{} differs from {} in {}; leave it out to take that",
                            model_of(tree).type, stored.type, stored.description_path));
  }
}

// Whether `tokenizer`, a value of data.tokenizer, is that of a checkpoint of the run at `from`. Another of it may be the newest when a
// configuration that was filled in is read again.
bool is_of_checkpoint(const YamlNode& tokenizer, const std::string& from) {
  const YamlNode* const path = tokenizer.find("path");
  if (path == nullptr || !path->is_scalar()) {
    return false;
  }
  const std::string folder = expand_home(path->text);
  const std::string above = parent_path(folder);
  return (above == from || above == join_path(from, "checkpoints")) &&
         parse_checkpoint_name(file_name(folder)).has_value();
}

// What a configuration's data are read with, where it does not say so.
void add_data_keys(FileSystem& files, const StoredModel& stored, const YamlNode& place,
                   const std::optional<std::string>& from, YamlNode& tree) {
  YamlNode* const data = tree.find("data");
  if (data == nullptr || !data->is_map()) {
    return;
  }
  YamlNode keys = YamlNode::map();
  if (const auto told = model_of(tree).data_keys) {
    keys = told(files, stored, *data);
  }
  const std::string folder = tokenizer_folder(files, stored);
  const YamlNode* const given = data->find("tokenizer");
  const bool is_theirs = given == nullptr || (from && is_of_checkpoint(*given, *from));
  if (is_theirs && !folder.empty()) {
    YamlNode& tokenizer = keys.add("tokenizer", YamlNode::map());
    tokenizer.add("type", YamlNode::string("hf"));
    tokenizer.add("path", YamlNode::string(folder));
  }
  set_place(keys, place);
  lay_over(*data, keys);
}

}  // namespace

std::optional<std::string> begins_with(const YamlNode& tree) {
  // find_config() would take a key of this name too, which is none.
  const YamlNode* from = &tree;
  for (const char* const key : {"model", "init", "from"}) {
    from = from == nullptr ? nullptr : from->find(key);
  }
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
  check_type(tree, stored);
  YamlNode& model = *tree.find("model");
  YamlNode given = model;
  std::erase_if(given.children,
                [](const YamlNode& key) { return key.is_scalar() && key.text == "auto"; });
  YamlNode merged = stored.network->section();
  YamlNode origin;
  origin.file = join_path(stored.folder, "config.json");
  set_place(merged, origin);
  merged.key = model.key;
  merged.file = model.file;
  merged.line = model.line;
  lay_over(merged, given);
  model = std::move(merged);
  const std::unique_ptr<ModelRun> both = model_of(tree).run();
  both->read_model(tree);
  if (const auto ids = stored.network->ids(); ids && !both->network()->ids()) {
    both->settle(*ids, tree);  // which layers are adapted depends on no number of ids
  }
  if (stored.base != nullptr && !both->lora) {
    config_fail(tree, "model.init.from",
                fmt::format("{} is an adapter; mstrain export --merge makes whole weights of it, "
                            "which can be trained without model.lora",
                            stored.folder));
  }
  compare(tree, *both->adapted_network(), stored);
  add_data_keys(files, stored, *find_config(tree, "model.init.from"), path, tree);
  return tree;
}

YamlNode with_model_of(FileSystem& files, const StoredModel& stored, YamlNode tree) {
  check_type(tree, stored);
  YamlNode section = stored.network->section();
  std::erase_if(section.children,
                [](const YamlNode& key) { return key.key == "init" || key.key == "head"; });
  if (YamlNode* const lora = section.find("lora")) {
    std::erase_if(lora->children, [](const YamlNode& key) {
      return key.key == "base";  // how weights are kept is the run's, not the adapter's
    });
  }
  if (tree.find("model") == nullptr) {
    tree.add("model", YamlNode::map());
  }
  YamlNode& model = *tree.find("model");
  set_place(section, model);
  lay_over(model, section);
  add_data_keys(files, stored, model, /*from=*/{}, tree);
  return tree;
}

}  // namespace mstrain
