// The network of on-policy algorithms: a policy and a value, each a perceptron of its own.
//
// Rows are agents of environments. An action is f32 [n, d] everywhere: a number of a discrete space is its own row of one.
#pragma once

#include <optional>
#include <vector>

#include "suites/reinforcement/algorithms/networks.h"
#include "suites/reinforcement/env/space.h"

namespace mstrain::reinforcement {

struct Decision {
  Tensor action_nd, log_prob_n, value_n;
  std::optional<Tensor> memory_nm;  // afterwards, where the network has one

  template <class V>
  void fields(V& v) {
    v("action", action_nd);
    v("log_prob", log_prob_n);
    v("value", value_n);
    v("memory", memory_nm);
  }
};

struct Choice {
  Tensor action_nd, value_n;
  std::optional<Tensor> memory_nm;

  template <class V>
  void fields(V& v) {
    v("action", action_nd);
    v("value", value_n);
    v("memory", memory_nm);
  }
};

// What came before steps [T, r] in their order: what each row remembered in front of the first one, and 0 in front of steps that begin an
// episode, else 1.
struct Past {
  Tensor memory_rm, kept_tr;

  template <class V>
  void fields(V& v) {
    v("memory", memory_rm);
    v("kept", kept_tr);
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
  // Numbers that a row remembers: of the policy, then of the value. Zeros where an episode begins.
  int64_t memory_size() const { return 2 * config_.memory; }

  // `memory`: [n, memory_size()], given where that is not 0.
  using Memory = std::optional<Tensor>;
  Decision decide(const Params& p, const Tensor& observation_no, const Tensor& noise,
                  const Memory& memory = std::nullopt) const;
  Choice best_action(const Params& p, const Tensor& observation_no,
                     const Memory& memory = std::nullopt) const;
  Tensor value(const Params& p, const Tensor& observation_no,
               const Memory& memory = std::nullopt) const;  // [n]
  // `past`: given where there is a memory; then n is T r, by time.
  Judgement judge(const Params& p, const Tensor& observation_no, const Tensor& action_nd,
                  const std::optional<Past>& past = std::nullopt) const;

 private:
  // What the heads go by: of each row what the policy and the value may see, or what they make of it and of what they remember.
  struct Seen {
    Tensor policy_no, value_no;
  };
  Seen seen(const Tensor& observation_no) const;
  Seen recalled(const Params& p, const Tensor& observation_no, const Memory& memory) const;
  Seen recalled(const Params& p, const Tensor& observation_no, const Past& past) const;
  static Memory memory_of(const Seen& recalled, const Memory& before);

  Tensor policy(const Params& p, const Tensor& seen_no) const;  // logits or means
  Tensor value_of(const Params& p, const Tensor& seen_no) const;
  Tensor log_std(const Params& p) const;
  Decision decided(const Params& p, const Seen& seen, const Tensor& noise) const;

  NetworkConfig config_;
  int64_t observation_size_, own_numbers_;
  bool discrete_;
  int64_t actions_;  // of a discrete space their number, else numbers of one
};

}  // namespace mstrain::reinforcement
