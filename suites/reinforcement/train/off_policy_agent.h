// Agents that learn from a memory of steps: DQN, SAC, TD3, DDPG.
#pragma once

#include <vector>

#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

std::vector<AgentEntry> off_policy_agents();

}  // namespace mstrain::reinforcement
