// Environments: N of one kind, stepped together. Each is a function of the seed alone, whatever it is stepped beside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/images/image.h"
#include "suites/reinforcement/env/config.h"
#include "suites/reinforcement/env/space.h"

namespace mstrain::reinforcement {

// Sizes below: n environments, A agents, O = spec().observation.size(), D = spec().action.size(). With one agent [n, A, O] is
// [n, O]. All tensors are dense, row-major, the caller's.

// One of the two is read, as the space of actions is. With turns, entries of agents that are not to move are not looked at.
struct Actions {
  const int64_t* discrete = nullptr;  // [n, A]
  const double* box = nullptr;        // [n, A, D]
};

// Null: not wanted.
struct StepBuffers {
  float* observations = nullptr;  // [n, A, O]: what the next action is for
  float* rewards = nullptr;       // [n, A]
  uint8_t* terminated = nullptr;  // [n]: 1 where the episode came to an end of its own
  uint8_t* truncated = nullptr;   // [n]: 1 where it was cut off; both may be
  // [n, A, O], written where terminated or truncated, else left as it is: the last observation of the episode, from which a
  // truncated one would have gone on.
  float* final_observations = nullptr;
  float* raw_rewards =
      nullptr;  // [n, A]: as the environment gave them, before wrappers; what returns are counted from
};

// After an episode's last step
//   same step:  the next one begins at once: `observations` is its first, `final_observations` the last of the old one;
//   next step:  `observations` is the last one. The next step() takes no action of this environment: it begins the next
//               episode, with reward 0 and neither flag set;
//   disabled:   every further step repeats the row of the last one.
// With any of them whoever learns must not bootstrap over `terminated`, and bootstraps from `final_observations` over `truncated`.

// Not thread-safe; distinct objects are independent of each other.
class VectorEnv {
 public:
  virtual ~VectorEnv() = default;

  virtual const EnvSpec& spec() const = 0;
  virtual int64_t size() const = 0;  // n

  // Begins new episodes everywhere. Environment i draws from streams that are keyed by (seed, first_env + i, episode), so any split of
  // environments over objects gives the same episodes.
  virtual void reset(uint64_t seed, uint64_t first_env) = 0;

  // What the next action is for, [n, A, O]: the same as the last step's `observations`.
  virtual void observe(float* out) const = 0;

  // Throws Error, naming the environment, its number and the step, for an action that is not in the space (or, with a mask, not
  // legal), and for an observation or a reward that is not finite. The states are then unspecified: load() or reset().
  virtual void step(const Actions& actions, const StepBuffers& out) = 0;

  // Where spec().masks: [n, A, number of actions], 1 for legal ones; all 0 for agents that are not to move.
  virtual void action_masks(uint8_t* out) const;
  // Where spec().turns: [n], the agent that is to move; -1 after the last step, where the next episode has not begun.
  virtual void to_move(int32_t* out) const;

  // Everything that the future depends on (physics, counters, statistics of wrappers), bit for bit. load() takes what save() of
  // an object that was made alike gave; throws Error for anything else, and then has changed nothing of what it checks first.
  virtual std::string save() const = 0;
  virtual void load(std::string_view bytes) = 0;

  // [n, spec().state_size]: the physics alone, without counters. set_states() begins an episode with them (elapsed steps: 0).
  // Throws Error where state_size is 0.
  virtual void get_states(double* out) const = 0;
  virtual void set_states(const double* states) = 0;

  // Environment i as a picture with red, green and blue.
  virtual Image picture(int64_t i) const = 0;

  // Wrappers' running statistics: whether steps add to them (true at first), and taking over another's, for evaluation.
  // No effect where there are none.
  virtual void set_learning(bool /*learning*/) {}
  virtual void copy_statistics(const VectorEnv& /*from*/) {}
};

// An environment by name.
struct EnvEntry {
  EnvSpec spec;
  std::unique_ptr<VectorEnv> (*make)(const EnvConfig& config, int64_t n);
  std::string (*missing)() = nullptr;  // why it cannot be made here; empty, or null: it can
  bool reads_models = false;           // EnvConfig::models
};

// Once for each name, before any environment is made.
void add_environment(const EnvEntry& entry);
const std::vector<EnvEntry>& environments();
// Throws ConfigError that names the nearest name and lists them all.
const EnvEntry& find_environment(std::string_view name);

// Why `config.models` is of no use to its environment; empty where it is, or is not given.
std::string models_unread(const EnvConfig& config);

// The environment that the configuration asks for, with its wrappers; n >= 1. reset() comes first, behind nothing but what
// concerns statistics. Throws ConfigError for a name that is unknown, Error for a library that cannot be used.
std::unique_ptr<VectorEnv> make_env(const EnvConfig& config, int64_t n);

}  // namespace mstrain::reinforcement
