// The network of on-policy algorithms: a policy and a value, each a perceptron of its own.
//
// Rows are agents of environments. An action is f32 [n, d] everywhere: a number of a discrete space is its own row of one.
#pragma once

#include <vector>

#include "suites/reinforcement/algorithms/networks.h"
#include "suites/reinforcement/env/space.h"

namespace mstrain::reinforcement {

struct Decision {
  Tensor action_nd, log_prob_n, value_n;

  template <class V>
  void fields(V& v) {
    v("action", action_nd);
    v("log_prob", log_prob_n);
    v("value", value_n);
  }
};

// What the network says of actions that were taken.
struct Judgement {
  Tensor log_prob_n, entropy_n, value_n;

  template <class V>
  void fields(V& v) {
    v("log_prob", log_prob_n);
    v("entropy", entropy_n);
    v("value", value_n);
  }
};

class ActorCritic {
 public:
  // Throws ConfigError for an environment whose actions it has no policy for.
  ActorCritic(const EnvSpec& env, const NetworkConfig& config);

  std::vector<ParamSpec> specs() const;
  int64_t observation_size() const { return observation_size_; }
  int64_t action_size() const { return discrete_ ? 1 : actions_; }
  // Numbers of noise for an action: uniform in (0, 1) where it is discrete, else standard normal.
  int64_t noise_size() const { return actions_; }
  bool is_discrete() const { return discrete_; }

  Decision decide(const Params& p, const Tensor& observation_no, const Tensor& noise) const;
  Tensor best_action(const Params& p, const Tensor& observation_no) const;  // [n, d]
  Tensor value(const Params& p, const Tensor& observation_no) const;        // [n]
  Judgement judge(const Params& p, const Tensor& observation_no, const Tensor& action_nd) const;

 private:
  Tensor policy(const Params& p, const Tensor& observation_no) const;  // logits or means
  Tensor log_std(const Params& p) const;

  NetworkConfig config_;
  int64_t observation_size_, own_numbers_;
  bool discrete_;
  int64_t actions_;  // of a discrete space their number, else numbers of one
};

}  // namespace mstrain::reinforcement
