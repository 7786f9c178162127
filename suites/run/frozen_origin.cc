#include "suites/run/frozen_origin.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/written_yaml.h"
#include "core/io/digest.h"
#include "core/io/folder.h"
#include "core/train/run_directory.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// The value at a key as ModelRun::models_besides() gives them; null where there is none.
const YamlNode* value_at(const YamlNode& tree, std::string_view key) {
  const YamlNode* at = &tree;
  while (at != nullptr && !key.empty()) {
    const size_t length = std::min(key.find_first_of(".[]"), key.size());
    const std::string_view name = key.substr(0, length);
    if (at->is_sequence()) {
      const auto index = std::stoul(std::string(name));
      at = index < at->children.size() ? &at->children[index] : nullptr;
    } else if (!name.empty()) {
      at = at->find(name);
    }
    key.remove_prefix(std::min(length + 1, key.size()));
  }
  return at;
}

// What the run of a checkpoint stands upon, as far as `tree` names it as the run does: an evaluation may compare with other models.
FrozenOrigins origins_of(FileSystem& files, const YamlNode& tree,
                         const std::optional<std::string>& checkpoint,
                         const std::set<std::string>& keys) {
  if (!checkpoint || !files.exists(join_path(*checkpoint, kStateFile))) {
    return {};
  }
  FrozenOrigins out = read_progress(files, *checkpoint).frozen;
  // As a path that stays right where the checkpoint is called ".".
  const std::string run = join_path(*checkpoint, std::string("../../") + kConfigFile);
  if (out.empty() || !files.exists(run)) {
    return {};
  }
  const YamlNode before = read_written_yaml(files, run);
  std::erase_if(out, [&](const auto& origin) {
    if (!keys.contains(origin.first)) {
      return true;
    }
    const YamlNode* const now = value_at(tree, origin.first);
    const YamlNode* const then = value_at(before, origin.first);
    return now == nullptr || then == nullptr || expand_home(now->text) != expand_home(then->text);
  });
  return out;
}

std::string origin_path(const FrozenOrigin& origin, const std::string& named) {
  return origin.checkpoint.empty() ? named : join_path(named, origin.checkpoint);
}

}  // namespace

YamlNode with_frozen_origins(FileSystem& files, YamlNode tree,
                             const std::optional<std::string>& checkpoint,
                             const std::set<std::string>& keys) {
  for (const auto& [key, origin] : origins_of(files, tree, checkpoint, keys)) {
    auto* const value = const_cast<YamlNode*>(value_at(tree, key));  // NOLINT: of this tree
    const std::string path = origin_path(origin, expand_home(value->text));
    if (files.exists(path)) {
      value->text = path;
    }
  }
  return tree;
}

void check_frozen_origins(FileSystem& files, const YamlNode& tree,
                          const std::optional<std::string>& checkpoint,
                          const std::set<std::string>& keys) {
  for (const auto& [key, origin] : origins_of(files, tree, checkpoint, keys)) {
    const YamlNode& value = *value_at(tree, key);
    const std::string named = expand_home(value.text);
    const std::string path = origin_path(origin, named);
    if (!files.exists(path)) {
      yaml_fail(value, key,
                fmt::format("{}, upon whose weights {} stands, is gone; bring it back, or train "
                            "anew with --restart",
                            path, *checkpoint));
    }
    if (frozen_origin(files, named, find_checkpoint(files, path)).manifest != origin.manifest) {
      yaml_fail(value, key,
                fmt::format("{} holds other weights now than those upon which {} stands; bring "
                            "those back, or train anew with --restart",
                            path, *checkpoint));
    }
  }
}

FrozenOrigin frozen_origin(FileSystem& files, const std::string& named, const std::string& folder) {
  const std::string below = join_path(named, "");
  const std::string manifest = join_path(folder, kManifestName);
  return {.checkpoint = folder.starts_with(below) ? folder.substr(below.size()) : "",
          .manifest = files.exists(manifest) ? sha256_hex(files.read(manifest)) : ""};
}

}  // namespace mstrain
