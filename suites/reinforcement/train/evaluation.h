// Episodes played with the best action, for people and for stop_at_return.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "core/io/images/image.h"
#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

struct Evaluated {
  std::vector<Episode> episodes;
  double mean_return() const;
  double mean_length() const;
  double quantile(double q) const;  // of returns, linear between them
};

// `episodes` side by side, each from its beginning to its end, on environments with random numbers of their own: a function of
// the seed and the player. Rewards are as the environment gives them, without wrappers that change them. `statistics`: whose running
// statistics observations are scaled by; null: none. `picture`: gets the first environment's pictures. None where it was asked to
// stop. Throws Error for an episode that does not end.
std::optional<Evaluated> evaluate(const EnvConfig& config, int64_t episodes, uint64_t seed,
                                  Player& player, const VectorEnv* statistics,
                                  const std::atomic<bool>& stop,
                                  const std::function<void(const Image&)>& picture = nullptr);

}  // namespace mstrain::reinforcement
