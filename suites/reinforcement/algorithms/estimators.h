// Estimates of what actions were worth, from trajectories. All tensors are [T, n] in memory, row-major: time by environment.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mstrain::reinforcement {

// What environments gave, and what a critic said of it.
struct Trajectories {
  int64_t steps = 0, envs = 0;
  std::span<const float> rewards, values;  // values: of the observation in front of each step
  std::span<const uint8_t> terminated, truncated;  // after the step
  std::span<const float> final_values;  // of the episode's last observation, where truncated
  std::span<const float> last_values;   // [n], of the observation after the last step
};

// Generalised advantages (Schulman et al. 2016, eq. 16): A_t = δ_t + γ λ A_{t+1} within an episode, with
// δ_t = r_t + γ V_{t+1} - V_t. Nothing follows a terminated step; a truncated one is followed by its final value.
void gae(const Trajectories& t, double discount, double lambda, std::span<float> advantages);

// V-trace (Espeholt et al. 2018, eq. 1, and the policy gradient's advantage of section 4.2). ratios: of the probabilities of
// the actions, now to when they were taken. targets: v_s. advantages: min(rho, ρ_s) (r_s + γ v_{s+1} - V(s)).
void v_trace(const Trajectories& t, std::span<const float> ratios, double discount, double lambda,
             double clip_rho, double clip_c, std::span<float> targets, std::span<float> advantages);

// Retrace(λ) (Munos et al. 2016, eq. 3-4): targets of Q(s_t, a_t). `t.values` are Q of the actions taken, `expected` [T, n] the
// policy's mean of Q in front of each step; `t.last_values` and `t.final_values` are such means too.
void retrace(const Trajectories& t, std::span<const float> expected, std::span<const float> ratios,
             double discount, double lambda, std::span<float> targets);

// One step that stands for several, from its place t on: the sum of discounted rewards up to `length` steps on, ended by
// what ends the episode.
struct NStep {
  double reward = 0;
  double discount = 1;  // of what follows: γ^steps; 0 after a terminated step
  int64_t steps = 0;
};
// `rewards`, `terminated`, `truncated`: of consecutive steps of one environment, at least one.
NStep n_step(std::span<const float> rewards, std::span<const uint8_t> terminated,
             std::span<const uint8_t> truncated, double discount);

}  // namespace mstrain::reinforcement
