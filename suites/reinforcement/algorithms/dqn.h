// Deep Q-learning (Mnih et al. 2015) for discrete actions, with double estimates (van Hasselt et al. 2016), duelling networks
// (Wang et al. 2016), rewards of several steps, prioritised replay and distributions of values (C51, Bellemare et al. 2017), as
// Hessel et al. 2018 put together; and with a memory that is learned from sequences, which begin with what was remembered when their first
// step was taken and may be burnt in (R2D2, Kapturowski et al. 2019).
#pragma once

#include "suites/reinforcement/algorithms/epsilon_greedy.h"
#include "suites/reinforcement/algorithms/off_policy.h"

namespace mstrain::reinforcement {

class Dqn final : public OffPolicy {
 public:
  bool double_q = true;
  bool dueling = false;
  int64_t atoms =
      0;  // of the distribution of a value, evenly from v_min to v_max; 0: its mean is learned
  double v_min = 0, v_max = 0;
  EpsilonGreedy explore;

  Dqn() { target_interval = 100; }
  void fields(ConfigFields& v) override;
  // Minimises the mean of weight huber(Q(o, a) - r - γ^n Q'(o', a')), Q' of the target; a' is the best by Q (double_q) or Q'.
  // Of distributions: the mean of weight times the cross-entropy of the target's, whose atoms r + γ^n z lie between those of the
  // support and are shared by their neighbours. Measures: q, the mean of Q(o, a). A sequence's error is 0.9 of the greatest of its
  // steps, in size, and 0.1 of their mean.
  std::unique_ptr<OffPolicyModel> model(const EnvSpec& env,
                                        const NetworkConfig& network) const override;
  double explore_at(double progress) const override { return explore.at(progress); }
};

}  // namespace mstrain::reinforcement
