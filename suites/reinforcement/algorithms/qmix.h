// Q-learning of teams that act at once for one reward. Every agent chooses by a Q of its own observation, one network for all; what is
// learned is the value of what they do together, which grows with each agent's Q, so that each one's best action is part of the best
// of all: QMIX (Rashid et al. 2018), or their sum, VDN (Sunehag et al. 2018). Without a mixer every agent learns for itself.
#pragma once

#include "suites/reinforcement/algorithms/epsilon_greedy.h"
#include "suites/reinforcement/algorithms/off_policy.h"

namespace mstrain::reinforcement {

enum class Mixer { kQmix, kVdn, kNone };

class Qmix final : public OffPolicy {
 public:
  Mixer mixer = Mixer::kQmix;
  int64_t mixing = 32;  // width of the mixer's hidden layer
  bool double_q = true;
  EpsilonGreedy explore;

  Qmix() { target_interval = 100; }
  void fields(ConfigFields& v) override;
  // With q_a = Q(o_a, u_a) of agents a and the state s, which is what the team sees: Q_tot = |w2(s)| elu(|W1(s)| q + b1(s)) + b2(s), where W1,
  // b1 and w2 are linear in s and b2 has a hidden layer. Minimises the mean of weight huber(Q_tot - r - γ^n Q'_tot), Q' of the target;
  // u' are the best by Q (double_q) or Q'. Measures: q, the mean of Q_tot.
  // An item of the memory is [A o], [A], r of all A agents.
  std::unique_ptr<OffPolicyModel> model(const EnvSpec& env,
                                        const NetworkConfig& network) const override;
  double explore_at(double progress) const override { return explore.at(progress); }
};

}  // namespace mstrain::reinforcement
