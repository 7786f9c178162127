// TdAfterstate (td_afterstate.h) as an agent: it moves in all environments at once, then every table learns from all of them.
#pragma once

#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

std::vector<AgentEntry> td_afterstate_agents();

}  // namespace mstrain::reinforcement
