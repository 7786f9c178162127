// Planning with a learned model (MuZero, Schrittwieser et al. 2020) by Gumbel search (Danihelka et al. 2022), for one agent with discrete
// actions. Three networks: an observation becomes a hidden state; a state and an action become the next state and a reward; a state
// has a policy and a value. With `chance_codes` (Antonoglou et al. 2022) a state and an action become an afterstate, which has a value
// and says how likely each code is; an afterstate and a code become the next state and the reward; and a fourth network names the code
// of what chance did between two observations. Rewards and values are distributions over 2 `support` + 1 atoms of the scale h(x) = sign(x) (sqrt(|x| + 1)
// - 1) + 0.001 x (Pohlen et al. 2018), one apart.
#pragma once

#include <optional>

#include "core/nn/layers.h"
#include "suites/reinforcement/algorithms/algorithm_config.h"
#include "suites/reinforcement/algorithms/network_config.h"
#include "suites/reinforcement/env/space.h"

namespace mstrain::reinforcement {

class MuZero final : public AlgorithmConfig {
 public:
  int64_t simulations = 16;
  int64_t considered = 16;
  double spread = 0;
  int64_t unroll = 5;
  int64_t n_step = 10;
  int64_t state_size = 64;
  int64_t support = 20;
  int64_t chance_codes = 0;
  double commitment = 1;
  double value_weight = 0.25;
  int64_t buffer_size = 50000;
  int64_t learning_starts = 1000;
  int64_t train_every = 4;
  int64_t updates = 1;
  int64_t batch_size = 128;
  bool prioritised = false;
  double priority_exponent = 1;
  double importance = 1;
  double reanalyse = 1;
  double target_rate = 1;

  MuZero() { discount = 0.997; }
  bool has_chance() const { return chance_codes > 0; }
  void fields(ConfigFields& v) override;
};

// b sequences of K actions, and what is wanted in front of each and behind the last one.
struct MuZeroBatch {
  Tensor observation_bo;
  Tensor action_bk;  // f32 numbers
  Tensor policy_bka, value_bk,
      reward_bk;  // [b, K + 1, A], [b, K + 1], [b, K]: of the searches; of n steps; of the actions
  Tensor weight_b;  // of importance, at most 1
  Tensor acts_bk,
      counts_bk;  // [b, K + 1]: 1 where there is a policy; where value, and the reward before it, are known
  std::optional<Tensor>
      following_bko;  // for chance: what was seen behind each action, zeros behind an end

  template <class V>
  void fields(V& v) {
    v("observation", observation_bo);
    v("action", action_bk);
    v("policy", policy_bka);
    v("value", value_bk);
    v("reward", reward_bk);
    v("weight", weight_b);
    v("acts", acts_bk);
    v("counts", counts_bk);
    v("following", following_bko);
  }
};

// Of a hidden state [n, s], whose numbers are in [0, 1].
struct MuZeroStep {
  Tensor state_ns, reward_n, value_n, logits_na;

  template <class V>
  void fields(V& v) {
    v("state", state_ns);
    v("reward", reward_n);
    v("value", value_n);
    v("logits", logits_na);
  }
};

class MuZeroModel {
 public:
  // Throws ConfigError for an environment with several agents, or whose actions are not discrete. `config` must outlive it.
  MuZeroModel(const MuZero& config, const EnvSpec& env, const NetworkConfig& network);

  std::vector<ParamSpec> specs() const;
  int64_t observation_size() const { return observation_size_; }
  int64_t actions() const { return actions_; }

  MuZeroStep root(const Params& p, const Tensor& observation_no) const;  // its reward is 0
  // With chance, actions and logits are as a search has them (mcts/search/muzero.h): `actions` + code is a step of chance, and an
  // afterstate's reward says nothing.
  MuZeroStep step(const Params& p, const Tensor& state_ns, const Tensor& action_n) const;
  // The first state counts whole, the K others a K-th each; half of the gradient flows through each step of the model. Measures:
  // policy_loss, value_loss, reward_loss; with chance those of afterstates, too, a K-th each: afterstate_loss (of their values),
  // chance_loss (of codes that are foretold), commitment_loss (how far what the encoder says is from its code).
  Loss loss(const Params& p, const MuZeroBatch& batch) const;

 private:
  struct Heads {
    Tensor state_ns, reward_nz, value_nz, logits_na;  // of distributions their logits
  };
  Heads heads(const Params& p, const Tensor& state_ns) const;
  Heads first(const Params& p, const Tensor& observation_no) const;
  // Behind an action or, with chance, behind a code: one-hot.
  Heads next(const Params& p, const Tensor& state_ns, const Tensor& taken_nx) const;
  struct Afterstate {
    Tensor state_ns, value_nz, code_nm;  // logits
  };
  Afterstate afterstate(const Params& p, const Tensor& state_ns, const Tensor& taken_na) const;
  // Shares of the codes of what chance did. No code is more of all rows than of some: over the rows its logits have mean 0 and deviation 1.
  Tensor encoded(const Params& p, const Tensor& before_no, const Tensor& taken_na,
                 const Tensor& after_no) const;
  // The state that a perceptron's answer moves `state_ns` to.
  Tensor moved(const Params& p, const Tensor& state_ns, const Tensor& given) const;
  Tensor mean_of(const Tensor& logits_nz) const;  // as rewards and values are
  Tensor two_hot(const Tensor& value_n) const;    // [n, z]

  const MuZero& config_;
  NetworkConfig network_;
  int64_t observation_size_, actions_;
};

}  // namespace mstrain::reinforcement
