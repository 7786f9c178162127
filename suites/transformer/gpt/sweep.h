// A sweep over runs of a GPT.
#pragma once

#include "suites/transformer/gpt/run.h"

namespace mstrain::gpt {

// Of a configuration that has a `sweep`. Every trial's configuration is read before any of them runs; throws ConfigError at the
// value that does not do.
Outcome run_sweep(const RunRequest& request);

// Prints which runs there will be, and how far each of them is.
void print_sweep(const RunRequest& request);

// The tree of the sweep's first run, for a plan.
YamlNode first_tree(const RunRequest& request);

}  // namespace mstrain::gpt
