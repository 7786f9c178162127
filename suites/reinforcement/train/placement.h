// Where the parts of an algorithm run: distribution.policy.
#pragma once

#include "suites/reinforcement/train/session.h"

namespace mstrain::reinforcement {

// Ranks that share the run: those of the request (--ranks), else threads of this process as the policy asks for.
int64_t ranks_of(const Config& config, const RunRequest& request);

// Throws ConfigError where the policy cannot be played by so many ranks.
void check_placement(const Config& config, const YamlNode& tree, int64_t ranks);

// As train_agent(), on all ranks.
Finished train_placed(const RunRequest& request, const Config& config);

}  // namespace mstrain::reinforcement
