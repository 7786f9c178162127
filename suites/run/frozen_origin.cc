#include "suites/run/frozen_origin.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/io/digest.h"
#include "core/io/folder.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// What the run so far stands upon. A checkpoint that does not read is set aside by the session.
std::optional<FrozenOrigin> frozen_so_far(const RunRequest& request, const ModelRun& run) {
  if (request.start.restart || run.train.run.mode != RunMode::kTrain) {
    return std::nullopt;
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
  return std::nullopt;
}

}  // namespace

YamlNode with_frozen_origin(const RunRequest& request, const ModelRun& run) {
  YamlNode tree = request.tree;
  const std::optional<std::string> from = begins_with(tree);
  const std::optional<FrozenOrigin> frozen = from ? frozen_so_far(request, run) : std::nullopt;
  if (!frozen || frozen->checkpoint.empty()) {
    return tree;
  }
  const std::string path = join_path(*from, frozen->checkpoint);
  if (!request.files.exists(path)) {
    config_fail(tree, "model.init.from",
                fmt::format("{}, upon whose weights {} stands, is gone; bring it back, or begin "
                            "anew with --restart",
                            path, run.train.run.directory()));
  }
  tree.find("model")->find("init")->find("from")->text = path;
  return tree;
}

FrozenOrigin frozen_origin(FileSystem& files, const std::string& from, const std::string& folder) {
  const std::string below = join_path(from, "");
  const std::string manifest = join_path(folder, kManifestName);
  return {.checkpoint = folder.starts_with(below) ? folder.substr(below.size()) : "",
          .manifest = files.exists(manifest) ? sha256_hex(files.read(manifest)) : ""};
}

}  // namespace mstrain
