// Which weights a run stands upon that no step changes (those that adapters adapt, those that objectives compare with, those of reward
// models), where the key that names them names a run that may go on meanwhile.
#pragma once

#include <string>

#include "core/train/checkpoint.h"
#include "suites/run/run.h"

namespace mstrain {

// The request's configuration; of a training run that goes on, what names such weights is the checkpoint that it began with. Throws
// ConfigError where that one is gone.
YamlNode with_frozen_origins(const RunRequest& request, const ModelRun& run);

// `folder`: what `named`, the value of a key, means now.
FrozenOrigin frozen_origin(FileSystem& files, const std::string& named, const std::string& folder);

}  // namespace mstrain
