// What environments do between the start and the end of an episode. EpisodeEnv (episodes.h) makes a VectorEnv of it: resets, limits,
// last observations, checks of actions and numbers, saved states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/io/images/image.h"
#include "suites/reinforcement/env/bytes.h"
#include "suites/reinforcement/env/environment.h"
#include "suites/reinforcement/env/random.h"

namespace mstrain::reinforcement {

// Where n environments are in their episodes.
struct EpisodeClock {
  uint64_t seed = 0;
  uint64_t first_env = 0;
  std::vector<uint32_t> episode;  // [n], since reset()
  std::vector<uint32_t> draws;    // [n], of random numbers in this episode
  std::vector<int32_t> elapsed;   // [n], steps of this episode before the one that is being taken

  // The stream of environment i, for as long as the caller draws.
  EnvRandom random(int64_t i) {
    const auto at = static_cast<size_t>(i);
    return {seed, DrawSite::kPhysics, first_env + static_cast<uint64_t>(i), episode[at], draws[at]};
  }
};

// n environments, none of which has begun before begin(i).
class Dynamics {
 public:
  virtual ~Dynamics() = default;
  virtual const EnvSpec& spec() const = 0;

  // Begins an episode in environment i.
  virtual void begin(int64_t i, EpisodeClock& clock) = 0;

  // One step of all environments but those where `still` is 1 (null: none is), which stay as they are and whose rows are not
  // looked at. Actions are in their space. rewards [n, A], terminated [n].
  virtual void step(const Actions& actions, const uint8_t* still, EpisodeClock& clock,
                    float* rewards, uint8_t* terminated) = 0;

  // [n, A, O], and the rows of environment i: [A, O].
  virtual void observe(float* out) const = 0;
  virtual void observe_one(int64_t i, float* out) const = 0;

  // The state of environment i, where spec().state_size is not 0.
  virtual void get_state(int64_t i, double* out) const = 0;
  virtual void set_state(int64_t i, const double* state) = 0;

  // The whole physics. As they are, these write and read the states; dynamics without lists of numbers have their own.
  virtual void save(ByteWriter& out) const;
  virtual void load(ByteReader& in);

  // Whether numbers are finite by construction and need no check.
  virtual bool is_trusted() const { return false; }

  virtual void mask(int64_t /*i*/, uint8_t* /*out*/) const {}  // [A, number of actions]
  virtual int32_t to_move(int64_t /*i*/) const { return 0; }
  virtual Image picture(int64_t i) const = 0;
  virtual int64_t size() const = 0;
};

}  // namespace mstrain::reinforcement
