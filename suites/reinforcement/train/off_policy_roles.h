// What a run of an off-policy algorithm takes, and what of it goes together.
#pragma once

#include "suites/reinforcement/algorithms/off_policy.h"
#include "suites/reinforcement/train/agent.h"
#include "suites/reinforcement/train/replay_items.h"

namespace mstrain::reinforcement {

inline const OffPolicy& off_policy_of(const Config& config) {
  return dynamic_cast<const OffPolicy&>(*config.algorithm);
}

// Of `learners`, each of which keeps the steps of its environments; the first one's.
ReplayShape replay_shape(const Config& config, const EnvSpec& env, const OffPolicyModel& model,
                         int64_t learners);

// As AgentEntry has them.
void check_off_policy(const Config& config, const YamlNode& tree, int64_t ranks);
AgentPlan plan_off_policy(const Config& config, const YamlNode& tree, int64_t ranks);

}  // namespace mstrain::reinforcement
