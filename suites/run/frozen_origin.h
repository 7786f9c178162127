// Which weights a run stands upon that no step changes (those that adapters adapt, those that objectives compare with, those of reward
// models), where the key that names them names a run that may go on meanwhile.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "core/base/yaml.h"
#include "core/train/checkpoint.h"

namespace mstrain {

// The configuration `tree`, of a run that goes on from `checkpoint` or an evaluation of that: one of the `keys` that names such weights as the
// run names them is the checkpoint that the run began with, if that is still there.
YamlNode with_frozen_origins(FileSystem& files, YamlNode tree,
                             const std::optional<std::string>& checkpoint,
                             const std::set<std::string>& keys);
// `tree` as it was before. Throws ConfigError where what the run stands upon by one of the `keys` is gone, or is not what it was.
void check_frozen_origins(FileSystem& files, const YamlNode& tree,
                          const std::optional<std::string>& checkpoint,
                          const std::set<std::string>& keys);

// `folder`: what `named`, the value of a key, means now.
FrozenOrigin frozen_origin(FileSystem& files, const std::string& named, const std::string& folder);

}  // namespace mstrain
