// What a run of an on-policy algorithm takes, and what of it goes together.
#pragma once

#include "suites/reinforcement/algorithms/on_policy.h"
#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

inline const OnPolicy& on_policy_of(const Config& config) {
  return dynamic_cast<const OnPolicy&>(*config.algorithm);
}

// As AgentEntry has them.
void check_on_policy(const Config& config, const YamlNode& tree, int64_t ranks);
AgentPlan plan_on_policy(const Config& config, const YamlNode& tree, int64_t ranks);

}  // namespace mstrain::reinforcement
