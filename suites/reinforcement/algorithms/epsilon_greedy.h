// Exploration of discrete actions: some are taken by chance, fewer and fewer.
#pragma once

#include "core/nn/layers.h"
#include "suites/reinforcement/algorithms/algorithm_config.h"

namespace mstrain::reinforcement {

struct EpsilonGreedy {
  double epsilon = 1;  // share of actions by chance, at first
  double final_epsilon = 0.05;
  double exploration = 0.2;  // share of the run over which it falls

  void fields(ConfigFields& v);
  double at(double progress) const {
    return final_epsilon +
           (epsilon - final_epsilon) * (progress < exploration ? 1 - progress / exploration : 0);
  }

  static constexpr int64_t kNoise = 2;  // numbers for an action: whether it is by chance, and which
  // best_n1, or one of `actions` by chance where the first noise, uniform in (0, 1), is below `explore` [].
  static Tensor act(const Tensor& best_n1, int64_t actions, const Tensor& noise_n2,
                    const Tensor& explore);
};

}  // namespace mstrain::reinforcement
