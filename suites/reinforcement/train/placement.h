// Where the parts of an algorithm run: distribution.policy.
#pragma once

#include "suites/reinforcement/train/session.h"

namespace mstrain::reinforcement {

// Threads of this process that share the run, where there are no other processes.
int64_t threads_of(const Config& config);

// Throws ConfigError where the policy cannot be played by so many ranks.
void check_placement(const Config& config, const YamlNode& tree, int64_t ranks);

// As train_agent(), on all ranks: those of `world`, or, where that is null, threads.
Finished train_placed(const RunRequest& request, const Config& config,
                      std::unique_ptr<Communicator> world, std::optional<int64_t> until = {});

}  // namespace mstrain::reinforcement
