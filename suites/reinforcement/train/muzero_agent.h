// Agents that plan with a model that they learn: MuZero.
#pragma once

#include <vector>

#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

std::vector<AgentEntry> muzero_agents();

}  // namespace mstrain::reinforcement
