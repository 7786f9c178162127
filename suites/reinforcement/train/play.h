// `mstrain play` of agents.
#pragma once

namespace mstrain::reinforcement {

void add_play();

}  // namespace mstrain::reinforcement
