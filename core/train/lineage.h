// Which run a run began from: model.init.from of its configuration, where that is a run or a checkpoint of one.
#pragma once

#include <optional>
#include <string>

#include "core/base/files.h"

namespace mstrain {

struct Origin {
  std::string path;           // as the configuration has it
  std::string run_directory;  // its real path; empty where `path` is no run's
  std::string checkpoint;  // "step-00000100", which may be gone; empty: the newest one at that time
};

// `from`: model.init.from, relative to `started_in`, the folder that the run was started in.
Origin origin_of(FileSystem& files, const std::string& from, const std::string& started_in);

// A path without links and dots; as it is where it leads nowhere.
std::string real_path(const std::string& path);

}  // namespace mstrain
