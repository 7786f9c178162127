#include "suites/transformer/gpt/stored_model.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/io/folder.h"
#include "core/tensor/host.h"
#include "core/train/checkpoint.h"
#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"

namespace mstrain::gpt {

std::string find_checkpoint(FileSystem& files, const std::string& path) {
  if (files.exists(join_path(path, kModelFile))) {
    return path;
  }
  const std::string checkpoints = join_path(path, "checkpoints");
  for (const std::string& directory : {checkpoints, path}) {
    if (const auto found = newest_checkpoint(files, directory, /*set_aside=*/false)) {
      return *found;
    }
  }
  if (!files.exists(path)) {
    throw IoError(fmt::format("{}: does not exist", path));
  }
  throw IoError(
      fmt::format("{}: holds no checkpoint: neither {} nor checkpoints/step-…", path, kModelFile));
}

StoredModel load_model(FileSystem& files, const std::string& path) {
  StoredModel out;
  out.folder = find_checkpoint(files, path);
  if (files.exists(join_path(out.folder, kManifestName))) {
    if (const auto problems = verify_folder(files, out.folder); !problems.empty()) {
      throw IoError(problems.front());
    }
  }
  const std::string config = join_path(out.folder, "config.json");
  out.config = config_from_hf(parse_json(files.read(config, 16 << 20), config), config);
  out.tokenizer = load_tokenizer(files, out.folder);
  std::vector<StoredTensor> tensors;
  for (const ParamSpec& spec : Gpt(out.config).specs()) {
    out.params.set(spec.name, uninitialised(spec.type));
    tensors.push_back(
        {spec.name, hf_shape(spec.name, spec.type.shape), *out.params.find(spec.name)});
  }
  load_tensors(files, out.folder, kModelFile, tensors);
  return out;
}

}  // namespace mstrain::gpt
