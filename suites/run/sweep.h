// A sweep over runs.
#pragma once

#include "suites/run/run.h"

namespace mstrain {

// Whether a configuration has a `sweep`.
bool is_sweep(const YamlNode& tree);

// Of one that has. Every trial's configuration is read before any of them runs; throws ConfigError at the
// value that does not do.
Outcome run_sweep(const RunRequest& request);

// Throws ConfigError where so many ranks cannot share one of its runs, or the runs ask for different places of the ranks.
void check_sweep_ranks(FileSystem& files, const YamlNode& tree, int64_t ranks);

// Prints which runs there will be, and how far each of them is. Returns the configuration of the first.
YamlNode first_of_sweep(const RunRequest& request);

}  // namespace mstrain
