// Runs of reinforcement learning, and `mstrain play` for what they learned.
#pragma once

#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

// Makes all algorithms known, and with them their runs and the command play.
void add_reinforcement();

}  // namespace mstrain::reinforcement
