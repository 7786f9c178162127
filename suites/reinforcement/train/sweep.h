// A sweep over runs of agents, compared by eval_return.
#pragma once

#include <functional>

#include "suites/run/run.h"

namespace mstrain::reinforcement {

// Trains a configuration up to so many steps of environments; anew where there is `cleared` (SessionStart).
using TrainUntil = std::function<Outcome(const YamlNode& tree, int64_t until,
                                         const std::function<void()>& cleared)>;

// Of a configuration that has a sweep. Every run's configuration is read before any of them trains; throws ConfigError at what does not do.
Outcome sweep_agents(const RunRequest& request, const TrainUntil& train);

// Prints which runs there will be, and how far each of them is. Returns the configuration of the first.
YamlNode first_of_agents_sweep(const RunRequest& request);

}  // namespace mstrain::reinforcement
