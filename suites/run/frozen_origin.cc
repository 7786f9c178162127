#include "suites/run/frozen_origin.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/io/digest.h"
#include "core/io/folder.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// What the run so far stands upon. A checkpoint that does not read is set aside by the session.
FrozenOrigins frozen_so_far(const RunRequest& request, const ModelRun& run) {
  if (request.start.restart || run.train.run.mode != RunMode::kTrain) {
    return {};
  }
  const std::string checkpoints = join_path(run.train.run.directory(), "checkpoints");
  std::vector<int64_t> steps = list_checkpoints(request.files, checkpoints);
  std::reverse(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    try {
      return read_progress(request.files, join_path(checkpoints, checkpoint_name(step))).frozen;
    } catch (const Error&) {
      continue;
    }
  }
  return {};
}

// The value at a key as ModelRun::models_besides() gives them; null where there is none.
YamlNode* value_at(YamlNode& tree, std::string_view key) {
  YamlNode* at = &tree;
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

}  // namespace

YamlNode with_frozen_origins(const RunRequest& request, const ModelRun& run) {
  YamlNode tree = request.tree;
  std::map<std::string, std::string> named = run.models_besides();
  if (const std::optional<std::string> from = begins_with(tree)) {
    named[kInitFromKey] = *from;
  }
  for (const auto& [key, origin] : named.empty() ? FrozenOrigins() : frozen_so_far(request, run)) {
    YamlNode* const value = named.contains(key) ? value_at(tree, key) : nullptr;
    if (value == nullptr || origin.checkpoint.empty()) {
      continue;
    }
    const std::string path = join_path(named[key], origin.checkpoint);
    if (!request.files.exists(path)) {
      yaml_fail(*value, key,
                fmt::format("{}, upon whose weights {} stands, is gone; bring it back, or begin "
                            "anew with --restart",
                            path, run.train.run.directory()));
    }
    value->text = path;
  }
  return tree;
}

FrozenOrigin frozen_origin(FileSystem& files, const std::string& named, const std::string& folder) {
  const std::string below = join_path(named, "");
  const std::string manifest = join_path(folder, kManifestName);
  return {.checkpoint = folder.starts_with(below) ? folder.substr(below.size()) : "",
          .manifest = files.exists(manifest) ? sha256_hex(files.read(manifest)) : ""};
}

}  // namespace mstrain
