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

// What is stepped together, wherever it is. A row is an agent of an environment: r = n A of them.
class Environments {
 public:
  virtual ~Environments() = default;

  int64_t rows() const { return static_cast<int64_t>(rewards_.size()); }
  int64_t size() const { return static_cast<int64_t>(terminated_.size()); }  // n
  virtual int64_t steps_taken() const = 0;                                   // of each environment
  // What the next action is for, [r, O].
  std::span<const float> observations() const { return observations_; }
  // [r, actions], 1 for those that may be next; empty where all always may.
  std::span<const uint8_t> legal() const { return legal_; }

  // Noise for the next action, [r, width]: uniform in (0, 1), or standard normal; the same for `hold` steps.
  virtual void draw_noise(bool normal, int64_t width, std::span<float> out,
                          int64_t hold = 1) const = 0;

  // Steps with actions [r, d]; those of a box are cut to its bounds. The spans below are then what the step gave. Throws Error
  // naming environment and step.
  virtual void step(std::span<const float> actions) = 0;
  std::span<const float> rewards() const { return rewards_; }          // [r]
  std::span<const uint8_t> terminated() const { return terminated_; }  // [n]
  std::span<const uint8_t> truncated() const { return truncated_; }    // [n]
  // Whether the last step ended environment i's episode.
  bool ended(size_t i) const { return terminated_[i] != 0 || truncated_[i] != 0; }
  // [r, O]: of environments that are terminated or truncated the last observation, of others whatever it was before.
  std::span<const float> final_observations() const { return final_observations_; }
  // Episodes that ended with this step, in the order of environments.
  std::span<const Episode> finished() const { return finished_; }

 protected:
  void resize(const EnvSpec& spec, int64_t n);

  std::vector<float> observations_, rewards_, final_observations_;
  std::vector<uint8_t> legal_, terminated_, truncated_;
  std::vector<Episode> finished_;
};

// draw_noise() of rows `first_row` … of a run, before step `step`.
void draw_noise(uint64_t seed, int64_t step, int64_t first_row, int64_t rows, bool normal,
                int64_t width, std::span<float> out);

class EnvGroup final : public Environments {
 public:
  // Environments first … first + n - 1 of the run. Everything random is a function of the seed and these numbers, so that
  // however a run's environments are dealt out, they see the same.
  // `statistics`: whose running statistics wrappers scale by, without adding to them; null: their own.
  EnvGroup(const EnvConfig& config, int64_t n, uint64_t seed, int64_t first,
           const VectorEnv* statistics = nullptr);

  const EnvSpec& spec() const { return env_->spec(); }
  const VectorEnv& env() const { return *env_; }
  VectorEnv& env() { return *env_; }
  int64_t first() const { return first_; }
  int64_t steps_taken() const override { return steps_; }

  void draw_noise(bool normal, int64_t width, std::span<float> out,
                  int64_t hold = 1) const override;
  void step(std::span<const float> actions) override;

  std::string save() const;
  void load(std::string_view bytes);

 private:
  void convert(std::span<const float> actions);
  void look();

  std::unique_ptr<VectorEnv> env_;
  uint64_t seed_;
  int64_t first_;
  int64_t steps_ = 0;
  std::vector<int64_t> discrete_;
  std::vector<double> box_;
  std::vector<float> raw_rewards_;  // [r]
  std::vector<Episode> running_;    // of each environment
};

}  // namespace mstrain::reinforcement
