// PPO, A2C and IMPALA at work.
#pragma once

#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

// One for each algorithm.
std::vector<AgentEntry> on_policy_agents();

}  // namespace mstrain::reinforcement
