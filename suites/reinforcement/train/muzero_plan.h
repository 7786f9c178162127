// What a run of MuZero may be, and what it will take.
#pragma once

#include "suites/reinforcement/algorithms/muzero.h"
#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

const MuZero& muzero_of(const Config& config);

// As AgentEntry asks for them.
void check_muzero(const Config& config, const YamlNode& tree, int64_t ranks);
AgentPlan plan_muzero(const Config& config, const YamlNode& tree, int64_t ranks);

}  // namespace mstrain::reinforcement
