// What a run will meet and a plan does not show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"
#include "core/train/sections.h"

namespace mstrain {

// Each finding is a line that begins with the key it is about, with its place where `tree` is what `config` was read from.
using Findings = std::vector<std::string>;

// Writes each to the log.
void warn_of(const Findings& findings);

// Keys that are allowed and still make no sense together, or on this machine.
void find_oddities(const TrainConfig& config, const YamlNode& tree, Findings& findings);

// Whether `split`, given as another share than `usual`, would be passed over because data.valid is given. 1 says the same as that.
void find_unused_split(bool has_valid, double split, double usual, const YamlNode& tree,
                       Findings& findings);

// Whether run.output_dir could be made and written to: tries it in a folder that is removed again.
void find_unwritable_output(FileSystem& files, const TrainConfig& config, const YamlNode& tree,
                            Findings& findings);

// Whether `bytes` of what `what` names ("the rows") have room where `folder` is or will be. `where`: the key and its place.
void find_full_disk(FileSystem& files, const std::string& folder, int64_t bytes,
                    const std::string& where, std::string_view what, Findings& findings);

}  // namespace mstrain
