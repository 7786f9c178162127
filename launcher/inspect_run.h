// What a run directory tells: status, history, best value, configuration, checkpoints.
#pragma once

#include <cstdio>
#include <string>

#include "core/base/files.h"

namespace mstrain::launcher {

// Prints what is there of run.json, metrics.jsonl, config.yaml and checkpoints. Throws IoError for files that are damaged.
void print_run(FileSystem& files, const std::string& path, std::FILE* out);

}  // namespace mstrain::launcher
