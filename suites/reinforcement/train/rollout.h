// What an actor of an on-policy algorithm brings: T steps of its environments, with what the policy said of them.
#pragma once

#include <vector>

#include "suites/reinforcement/algorithms/actor_critic.h"
#include "suites/reinforcement/algorithms/estimators.h"
#include "suites/reinforcement/train/env_group.h"

namespace mstrain::reinforcement {

// [T, r, …], row-major; see Trajectories.
struct Rollout {
  int64_t steps = 0, rows = 0, observation_size = 0, action_size = 0, memory_size = 0;
  std::vector<float> observations, actions, log_probs, values, rewards, final_values, last_values;
  std::vector<float> memory;  // [r, m], in front of the first step
  std::vector<uint8_t> terminated, truncated;
  std::vector<Episode> finished;     // in the order of time, then environments
  std::vector<int64_t> finished_at;  // the step of each

  Rollout() = default;
  Rollout(int64_t steps, int64_t rows, const ActorCritic& network);
  Trajectories trajectories() const;
  int64_t bytes() const;
};

// As bytes for another rank, and back into `out`, which has their sizes.
std::string pack(const Rollout& rollout);
void unpack(std::string_view bytes, Rollout& out);

// One of all rows of `parts`, which have equally many steps, side by side in their order.
void join(std::span<const Rollout> parts, Rollout& out);

// The policy as the actor calls it. Results are copied into the spans.
class Policy {
 public:
  virtual ~Policy() = default;
  // [r, O] and noise [r, noise size] to actions [r, d], log-probabilities [r], values [r]; memory [r, m] becomes what is
  // remembered afterwards.
  virtual void decide(std::span<const float> observations, std::span<const float> noise,
                      std::span<float> memory, std::span<float> actions, std::span<float> log_probs,
                      std::span<float> values) = 0;
  // [r, O] and [r, m] -> [r]
  virtual void value(std::span<const float> observations, std::span<const float> memory,
                     std::span<float> values) = 0;
};

// Forgets in memory[r, m] where a flag of either list [n], of environments, is set.
void forget(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated,
            std::span<float> memory);

// Steps all environments out.steps times. memory[r, m] goes on from rollout to rollout.
void collect(Environments& envs, const ActorCritic& network, Policy& policy,
             std::span<float> memory, Rollout& out);

}  // namespace mstrain::reinforcement
