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

Rollout::Rollout(int64_t steps, int64_t rows, const ActorCritic& network)
    : steps(steps),
      rows(rows),
      observation_size(network.observation_size()),
      action_size(network.action_size()),
      memory_size(network.memory_size()),
      observations(count(steps * rows * observation_size)),
      actions(count(steps * rows * action_size)),
      log_probs(count(steps * rows)),
      values(count(steps * rows)),
      rewards(count(steps * rows)),
      final_values(count(steps * rows)),
      last_values(count(rows)),
      memory(count(rows * memory_size)),
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
  return steps * rows * (4 * (observation_size + action_size + 4) + 2) +
         4 * rows * (1 + memory_size);
}

std::string pack(const Rollout& r) {
  ByteWriter out;
  for (const std::vector<float>* each : {&r.observations, &r.actions, &r.log_probs, &r.values,
                                         &r.rewards, &r.final_values, &r.last_values, &r.memory}) {
    out.put_all(*each);
  }
  out.put_all(r.terminated);
  out.put_all(r.truncated);
  out.put<uint64_t>(r.finished.size());
  out.put_all(r.finished);
  out.put_all(r.finished_at);
  return out.take();
}

void unpack(std::string_view bytes, Rollout& r) {
  ByteReader in(bytes, "a rollout of another rank");
  for (std::vector<float>* each : {&r.observations, &r.actions, &r.log_probs, &r.values, &r.rewards,
                                   &r.final_values, &r.last_values, &r.memory}) {
    *each = in.get_all<float>(each->size());
  }
  r.terminated = in.get_all<uint8_t>(r.terminated.size());
  r.truncated = in.get_all<uint8_t>(r.truncated.size());
  const auto finished = in.get<uint64_t>();
  r.finished = in.get_all<Episode>(finished);
  r.finished_at = in.get_all<int64_t>(finished);
  in.expect_end();
}

void join(std::span<const Rollout> parts, Rollout& out) {
  const auto beside = [&](auto member, int64_t width, int64_t steps) {
    int64_t first = 0;
    for (const Rollout& from : parts) {
      for (int64_t step = 0; step < steps; ++step) {
        const auto begin = (from.*member).begin() + step * from.rows * width;
        std::copy_n(begin, from.rows * width,
                    (out.*member).begin() + (step * out.rows + first) * width);
      }
      first += from.rows;
    }
  };
  beside(&Rollout::observations, out.observation_size, out.steps);
  beside(&Rollout::actions, out.action_size, out.steps);
  for (const auto member :
       {&Rollout::log_probs, &Rollout::values, &Rollout::rewards, &Rollout::final_values}) {
    beside(member, 1, out.steps);
  }
  beside(&Rollout::last_values, 1, 1);
  beside(&Rollout::memory, out.memory_size, 1);
  beside(&Rollout::terminated, 1, out.steps);
  beside(&Rollout::truncated, 1, out.steps);
  out.finished.clear();
  out.finished_at.clear();
  for (int64_t step = 0; step < out.steps; ++step) {
    for (const Rollout& from : parts) {
      for (size_t i = 0; i < from.finished.size(); ++i) {
        if (from.finished_at[i] == step) {
          out.finished.push_back(from.finished[i]);
          out.finished_at.push_back(step);
        }
      }
    }
  }
}

void forget(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated,
            std::span<float> memory) {
  const size_t width = memory.size() / terminated.size();
  for (size_t env = 0; width > 0 && env < terminated.size(); ++env) {
    if (terminated[env] != 0 || truncated[env] != 0) {
      std::ranges::fill(memory.subspan(env * width, width), 0.0F);
    }
  }
}

void collect(Environments& envs, const ActorCritic& network, Policy& policy,
             std::span<float> memory, Rollout& out) {
  std::ranges::copy(memory, out.memory.begin());
  out.finished.clear();
  out.finished_at.clear();
  std::vector<float> noise(count(out.rows * network.noise_size()));
  for (int64_t step = 0; step < out.steps; ++step) {
    const std::span<float> actions = part(out.actions, step, out.rows * out.action_size);
    std::ranges::copy(envs.observations(),
                      part(out.observations, step, out.rows * out.observation_size).begin());
    envs.draw_noise(!network.is_discrete(), network.noise_size(), noise);
    policy.decide(envs.observations(), noise, memory, actions, part(out.log_probs, step, out.rows),
                  part(out.values, step, out.rows));
    envs.step(actions);
    std::ranges::copy(envs.rewards(), part(out.rewards, step, out.rows).begin());
    spread(envs.terminated(), part(out.terminated, step, out.rows));
    spread(envs.truncated(), part(out.truncated, step, out.rows));
    out.finished.insert(out.finished.end(), envs.finished().begin(), envs.finished().end());
    out.finished_at.resize(out.finished.size(), step);
    const std::span<float> final_values = part(out.final_values, step, out.rows);
    if (std::ranges::any_of(envs.truncated(), [](uint8_t flag) { return flag != 0; })) {
      policy.value(envs.final_observations(), memory, final_values);
    } else {
      std::ranges::fill(final_values, 0.0F);
    }
    forget(envs.terminated(), envs.truncated(), memory);
  }
  policy.value(envs.observations(), memory, out.last_values);
}

}  // namespace mstrain::reinforcement
