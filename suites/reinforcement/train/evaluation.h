// Episodes played with the best action, for people and for stop_at_return.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

struct Evaluated {
  std::vector<Episode> episodes;
  double mean_return() const;
  double mean_length() const;
  double quantile(double q) const;  // of returns, linear between them
};

// Looks on while episodes are played.
class Spectator {
 public:
  virtual ~Spectator() = default;
  // In front of the first step.
  virtual void begin(const EnvGroup& group) = 0;
  // After each: what was done [r, d], what the player took it to be worth [r], and whether an environment's episode had been over
  // before [n], so that it does not count.
  virtual void step(const EnvGroup& group, std::span<const float> actions,
                    std::span<const float> values, std::span<const uint8_t> over) = 0;
};

// `episodes` side by side, each from its beginning to its end, on environments with random numbers of their own: a function of
// the seed and the player. Returns are of rewards as the environment gives them, without wrappers that change them. `statistics`:
// whose running statistics wrappers scale by; null: none. None where it was asked to stop. Throws Error for an episode that does not
// end.
std::optional<Evaluated> evaluate(const EnvConfig& config, int64_t episodes, uint64_t seed,
                                  Player& player, const VectorEnv* statistics,
                                  const std::atomic<bool>& stop, Spectator* spectator = nullptr);

}  // namespace mstrain::reinforcement
