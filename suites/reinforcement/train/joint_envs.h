// Environments of many ranks as those of one, which chooses all actions (SEED RL, Espeholt et al. 2020): each step it sends every other rank
// the actions of its environments, and receives what they gave.
#pragma once

#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "suites/reinforcement/train/env_group.h"

namespace mstrain::reinforcement {

// On rank 0. Its own environments, if it has any, come first, then the other ranks' in their order.
class JointEnvs final : public Environments {
 public:
  // `own`: null where rank 0 has none. `each`: environments of every other rank. All must outlive it.
  JointEnvs(const EnvSpec& spec, EnvGroup* own, int64_t each, uint64_t seed, Communicator& ranks);

  // Before the first step of an iteration, which serve() begins on the other ranks.
  void begin();

  void draw_noise(bool normal, int64_t width, std::span<float> out, int64_t hold) const override;
  void step(std::span<const float> actions) override;
  int64_t steps_taken() const override { return steps_; }

 private:
  int64_t own_size() const { return own_ == nullptr ? 0 : own_->size(); }
  // The first environment of another rank.
  int64_t first(int rank) const { return own_size() + (rank - 1) * each_; }
  void take_own();
  void take(int rank);

  const EnvSpec& spec_;
  EnvGroup* own_;
  int64_t each_;
  uint64_t seed_;
  Communicator& ranks_;
  int64_t steps_ = 0;
  std::vector<std::string> messages_;  // of each rank
};

// On the others: an iteration of `steps` steps, with actions [r, d] from rank 0. Throws as EnvGroup::step().
void serve(EnvGroup& envs, int64_t steps, Communicator& ranks);

// A step of `n` environments as a message, whatever happens in it.
int64_t step_message_bytes(const EnvSpec& spec, int64_t n);

}  // namespace mstrain::reinforcement
