#include "suites/reinforcement/train/rollout.h"

#include <algorithm>

namespace mstrain::reinforcement {
namespace {

template <class T>
std::span<T> part(std::vector<T>& all, int64_t index, int64_t size) {
  return std::span(all).subspan(count(index * size), count(size));
}

// A flag of each environment for each of its rows.
void spread(std::span<const uint8_t> flags, std::span<uint8_t> rows) {
  const size_t agents = rows.size() / flags.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = flags[i / agents];
  }
}

}  // namespace

Rollout::Rollout(int64_t steps, int64_t rows, int64_t observation_size, int64_t action_size)
    : steps(steps),
      rows(rows),
      observation_size(observation_size),
      action_size(action_size),
      observations(count(steps * rows * observation_size)),
      actions(count(steps * rows * action_size)),
      log_probs(count(steps * rows)),
      values(count(steps * rows)),
      rewards(count(steps * rows)),
      final_values(count(steps * rows)),
      last_values(count(rows)),
      terminated(count(steps * rows)),
      truncated(count(steps * rows)) {}

Trajectories Rollout::trajectories() const {
  return {.steps = steps,
          .envs = rows,
          .rewards = rewards,
          .values = values,
          .terminated = terminated,
          .truncated = truncated,
          .final_values = final_values,
          .last_values = last_values};
}

int64_t Rollout::bytes() const {
  return steps * rows * (4 * (observation_size + action_size + 4) + 2) + 4 * rows;
}

void collect(EnvGroup& group, const ActorCritic& network, Policy& policy, Rollout& out) {
  out.finished.clear();
  std::vector<float> noise(count(out.rows * network.noise_size()));
  for (int64_t step = 0; step < out.steps; ++step) {
    const std::span<float> actions = part(out.actions, step, out.rows * out.action_size);
    std::ranges::copy(group.observations(),
                      part(out.observations, step, out.rows * out.observation_size).begin());
    group.draw_noise(!network.is_discrete(), network.noise_size(), noise);
    policy.decide(group.observations(), noise, actions, part(out.log_probs, step, out.rows),
                  part(out.values, step, out.rows));
    group.step(actions);
    std::ranges::copy(group.rewards(), part(out.rewards, step, out.rows).begin());
    spread(group.terminated(), part(out.terminated, step, out.rows));
    spread(group.truncated(), part(out.truncated, step, out.rows));
    out.finished.insert(out.finished.end(), group.finished().begin(), group.finished().end());
    const std::span<float> final_values = part(out.final_values, step, out.rows);
    if (std::ranges::any_of(group.truncated(), [](uint8_t flag) { return flag != 0; })) {
      policy.value(group.final_observations(), final_values);
    } else {
      std::ranges::fill(final_values, 0.0F);
    }
  }
  policy.value(group.observations(), out.last_values);
}

}  // namespace mstrain::reinforcement
