// What algorithms have in common that learn from a memory of steps, whoever's they were: Q-learning and its kin. Each is one
// class with keys, and one model: networks, how they act, and a loss.
//
// An action is f32 [n, d]: of a discrete space its number, of a box numbers in [-1, 1], which stand for its bounds.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/nn/layers.h"
#include "suites/reinforcement/algorithms/algorithm_config.h"
#include "suites/reinforcement/algorithms/network_config.h"
#include "suites/reinforcement/env/space.h"

namespace mstrain::reinforcement {

// Where b sequences stand in time: of L steps each, of which the first L - R are there to be remembered, and U to be learnt from
// begin behind them.
struct Sequences {
  Tensor memory_bm;  // in front of the first step, when it was taken
  Tensor kept_lb;    // 0 in front of steps that begin an episode, else 1
  Tensor last_ub;    // i32: the last step, in [0, R), that each of the U stands for

  template <class V>
  void fields(V& v) {
    v("memory", memory_bm);
    v("kept", kept_lb);
    v("last", last_ub);
  }
};

// b steps of the memory, each of which may stand for several: the reward is their discounted sum, and `discount` is that of
// what `next_observation` brings, 0 behind a terminated step. Of a model that remembers b sequences, by time: [L b] observations,
// [R b] next ones, [U b] actions, rewards and discounts; weights remain [b].
struct OffPolicyBatch {
  Tensor observation_bo, action_bd, reward_b, discount_b, next_observation_bo;
  Tensor weight_b;                 // of importance, at most 1
  Tensor noise_bd, next_noise_bd;  // standard normal, for actions of the policy that learns
  std::optional<Sequences> sequences;

  template <class V>
  void fields(V& v) {
    v("observation", observation_bo);
    v("action", action_bd);
    v("reward", reward_b);
    v("discount", discount_b);
    v("next_observation", next_observation_bo);
    v("weight", weight_b);
    v("noise", noise_bd);
    v("next_noise", next_noise_bd);
    v("sequences", sequences);
  }
};

struct OffPolicyLoss {
  Loss loss;
  Tensor error_b;  // of the value, for priorities; its size, or of either sign

  template <class V>
  void fields(V& v) {
    v("loss", loss);
    v("error", error_b);
  }
};

// Networks and what is learned of them. Parameters of the folder `actor` are those that OffPolicy::policy_delay is about.
class OffPolicyModel {
 public:
  virtual ~OffPolicyModel() = default;
  virtual std::vector<ParamSpec> specs() const = 0;
  // Numbers of noise for an action, and whether they are standard normal, else uniform in (0, 1).
  virtual int64_t noise_size() const = 0;
  virtual bool noise_is_normal() const = 0;
  // Whether an item of the memory is a step of all agents of an environment together, for one reward; else of one.
  virtual bool is_of_teams() const { return false; }
  // Numbers that a row remembers; zeros where an episode begins.
  virtual int64_t memory_size() const { return 0; }
  // What the two functions below go by: the observation, or what is remembered after it of `memory` in front of it, which is given
  // where memory_size() is not 0.
  virtual Tensor seen(const Params& /*p*/, const Tensor& observation_no,
                      const std::optional<Tensor>& /*memory_nm*/) const {
    return observation_no;
  }
  // `explore` []: how much of the action is chance, as OffPolicy::explore_at() has it.
  virtual Tensor act(const Params& p, const Tensor& seen_no, const Tensor& noise,
                     const Tensor& explore) const = 0;
  virtual Tensor best_action(const Params& p, const Tensor& seen_no) const = 0;
  // What acting by best_action() is worth: [n], or of teams [b], of the observations of all their agents [b, A o].
  virtual Tensor worth(const Params& p, const Tensor& seen_no) const = 0;
  // `target`: the parameters that follow those that learn.
  virtual OffPolicyLoss loss(const Params& p, const Params& target,
                             const OffPolicyBatch& batch) const = 0;
};

enum class BufferOn { kMemory, kDisk };

class OffPolicy : public AlgorithmConfig {
 public:
  BufferOn buffer_on = BufferOn::kMemory;
  int64_t buffer_size = 100000;  // steps of all environments together
  int64_t learning_starts = 1000;
  int64_t train_every = 1;  // steps of every environment
  int64_t updates = 1;
  int64_t batch_size = 128;
  AutoOr<int64_t> parts;  // of a batch; auto: one for each learner
  int64_t noise_hold = 1;
  int64_t n_step = 1;
  int64_t unroll = 16, burn_in = 0;  // of a model that remembers
  double target_rate = 1;
  int64_t target_interval = 1;
  bool prioritised = false;
  double priority_exponent = 0.6;
  double importance = 0.4;  // exponent of the correction, which grows to 1 over the run

  // Throws ConfigError for an environment whose actions it has no policy for. This must outlive what it gives.
  virtual std::unique_ptr<OffPolicyModel> model(const EnvSpec& env,
                                                const NetworkConfig& network) const = 0;
  // At this share of the run.
  virtual double explore_at(double progress) const = 0;
  // The policy learns in each update of so many.
  virtual int64_t policy_delay() const { return 1; }

 protected:
  void common_fields(ConfigFields& v);
};

// x²/2 near 0, beyond ±1 linear (Huber 1964).
Tensor huber(const Tensor& x);
// The same values, through which no gradient flows.
Params stop_gradient(const Params& params);

}  // namespace mstrain::reinforcement
