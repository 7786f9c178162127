// Environments as a part of mstrain.
#pragma once

namespace mstrain::reinforcement {

// Registers the environments that mstrain brings, and the commands envs and rollout. Once.
void add_environment_suite();

}  // namespace mstrain::reinforcement
