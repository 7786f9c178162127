// What a run directory tells: status, history, best value, configuration, checkpoints; and what a sweep does.
#pragma once

#include <cstdio>
#include <string>

#include "core/base/files.h"

namespace mstrain::launcher {

// Prints what is there of run.json, metrics.jsonl, config.yaml and checkpoints. Throws IoError for files that are damaged.
void print_run(FileSystem& files, const std::string& path, std::FILE* out);

// Prints a sweep's runs, with their values and results, from its sweep.json. Throws IoError where that is damaged.
void print_sweep(FileSystem& files, const std::string& path, std::FILE* out);

}  // namespace mstrain::launcher
