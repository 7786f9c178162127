// Which weights a run stands upon that no step changes (those that adapters adapt, those that objectives compare with), where
// model.init.from names a run that may go on meanwhile.
#pragma once

#include <string>

#include "core/train/checkpoint.h"
#include "suites/run/run.h"

namespace mstrain {

// The request's configuration; of a training run that goes on, model.init.from is the checkpoint that it began with. Throws ConfigError
// where that one is gone.
YamlNode with_frozen_origin(const RunRequest& request, const ModelRun& run);

// `folder`: what `from`, model.init.from, means now.
FrozenOrigin frozen_origin(FileSystem& files, const std::string& from, const std::string& folder);

}  // namespace mstrain
