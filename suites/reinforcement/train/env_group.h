// Environments of one actor: stepped with actions as networks give them, with their noise and their episodes counted.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "suites/reinforcement/algorithms/sizes.h"
#include "suites/reinforcement/env/environment.h"
#include "suites/reinforcement/train/episodes.h"

namespace mstrain::reinforcement {

// A row is an agent of an environment: r = n A of them.
class EnvGroup {
 public:
  // Environments first … first + n - 1 of the run. Everything random is a function of the seed and these numbers, so that
  // however a run's environments are dealt out, they see the same.
  EnvGroup(const EnvConfig& config, int64_t n, uint64_t seed, int64_t first);

  const EnvSpec& spec() const { return env_->spec(); }
  const VectorEnv& env() const { return *env_; }
  VectorEnv& env() { return *env_; }
  int64_t size() const { return env_->size(); }
  int64_t rows() const { return size() * spec().agents; }
  int64_t first() const { return first_; }
  int64_t steps_taken() const { return steps_; }  // of each environment

  // What the next action is for, [r, O].
  std::span<const float> observations() const { return observations_; }

  // The environments' statistics changed: observations are made anew.
  void refresh() { env_->observe(observations_.data()); }

  // Noise for the next action, [r, width]: uniform in (0, 1), or standard normal; the same for `hold` steps.
  void draw_noise(bool normal, int64_t width, std::span<float> out, int64_t hold = 1) const;

  // Steps with actions [r, d]; those of a box are cut to its bounds. The spans below are then what the step gave. Throws Error
  // naming environment and step.
  void step(std::span<const float> actions);
  std::span<const float> rewards() const { return rewards_; }          // [r]
  std::span<const uint8_t> terminated() const { return terminated_; }  // [n]
  std::span<const uint8_t> truncated() const { return truncated_; }    // [n]
  // [r, O]: of environments that are terminated or truncated the last observation, of others whatever it was before.
  std::span<const float> final_observations() const { return final_observations_; }
  // Episodes that ended with this step, in the order of environments.
  std::span<const Episode> finished() const { return finished_; }

  std::string save() const;
  void load(std::string_view bytes);

 private:
  void convert(std::span<const float> actions);

  std::unique_ptr<VectorEnv> env_;
  uint64_t seed_;
  int64_t first_;
  int64_t steps_ = 0;
  std::vector<float> observations_, rewards_, final_observations_;
  std::vector<uint8_t> terminated_, truncated_;
  std::vector<int64_t> discrete_;
  std::vector<double> box_;
  std::vector<Episode> running_;  // of each environment
  std::vector<Episode> finished_;
};

}  // namespace mstrain::reinforcement
