// Searches in the learned model of a MuZero, of many observations at once.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "suites/reinforcement/algorithms/muzero.h"

namespace mstrain::reinforcement {

struct Searched {
  std::vector<float> policies;  // [r, A]: the improved policy
  std::vector<float> values;    // [r]: of the root, by what was found
  std::vector<float> chosen;    // [r]: the winner of the halving, which chance takes part in
  std::vector<float> best;      // [r]: the likeliest of the improved policy
};

class ModelSearch {
 public:
  // `params` are looked at whenever it searches; all arguments must outlive it.
  ModelSearch(const MuZero& config, const MuZeroModel& model, const Params& params);

  // observations [r, O]; legal [r, A], or none where all actions are. The same for the same seed and weights.
  Searched search(std::span<const float> observations, std::span<const uint8_t> legal,
                  uint64_t seed) const;
  // What the network alone says of them: [r].
  std::vector<float> values(std::span<const float> observations) const;

 private:
  MuZeroStep root(std::span<const float> observations) const;

  const MuZero& config_;
  const MuZeroModel& model_;
  const Params& params_;
  std::function<MuZeroStep(const Params&, const Tensor&)> root_;
  std::function<MuZeroStep(const Params&, const Tensor&, const Tensor&)> step_;
};

}  // namespace mstrain::reinforcement
