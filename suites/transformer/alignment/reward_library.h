// Rewards of shared libraries that speak the C interface (c_reward.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "suites/transformer/alignment/rewards.h"

struct mstrain_reward_api;

namespace mstrain {

class RewardLibrary {
 public:
  // Throws Error that names the file: it is not there, has no mstrain_reward(), is of another version, or lacks something.
  explicit RewardLibrary(const std::string& path);

  // What each answer earns. Throws Error with what the library says of a failure, and with the answer that earns what is no number. Where the
  // library ends the process by a signal, standard error gets its name first.
  std::vector<double> score(std::span<const WrittenAnswer> answers) const;

 private:
  std::string path_;
  const mstrain_reward_api& api_;
};

}  // namespace mstrain
