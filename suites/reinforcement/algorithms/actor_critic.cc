#include "suites/reinforcement/algorithms/actor_critic.h"

#include "core/base/error.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/slicing.h"
#include "suites/reinforcement/algorithms/distributions.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kUndecided = 0.01;  // gain of the policy's last layer

Tensor as_ids(const Tensor& action_nd) { return cast(squeeze(action_nd, -1), Dtype::kI32); }
Tensor as_action(const Tensor& ids_n) { return expand_dims(cast(ids_n, Dtype::kF32), -1); }

}  // namespace

ActorCritic::ActorCritic(const EnvSpec& env, const NetworkConfig& config)
    : config_(config),
      observation_size_(env.observation.size()),
      own_numbers_(env.own_numbers == 0 ? observation_size_ : env.own_numbers),
      discrete_(env.action.is_discrete()),
      actions_(discrete_ ? env.action.n : env.action.size()) {
  refuse_games(env);
}

std::vector<ParamSpec> ActorCritic::specs() const {
  return declare_params([&](const Params& p) {
    const Tensor observation = zeros({Dtype::kF32, {1, observation_size_}});
    policy(p, observation);
    if (!discrete_) {
      log_std(p);
    }
    value(p, observation);
  });
}

Tensor ActorCritic::policy(const Params& p, const Tensor& observation_no) const {
  const Tensor own_no = own_numbers_ == observation_size_
                            ? observation_no
                            : observation_no[{kAll, Slice{0, own_numbers_}}];
  return perceptron(p / "policy", own_no, config_, actions_, kUndecided);
}

Tensor ActorCritic::log_std(const Params& p) const {
  return (p / "policy").get("log_std", {actions_}, zeros_init(), /*decay=*/false);
}

Tensor ActorCritic::value(const Params& p, const Tensor& observation_no) const {
  return squeeze(perceptron(p / "value", observation_no, config_, 1, 1.0), -1);
}

Decision ActorCritic::decide(const Params& p, const Tensor& observation_no,
                             const Tensor& noise) const {
  const Tensor value_n = value(p, observation_no);
  if (discrete_) {
    const Categorical policy_n{policy(p, observation_no)};
    const Tensor ids_n = policy_n.sample(noise);
    return {as_action(ids_n), policy_n.log_prob(ids_n), value_n};
  }
  const Gaussian policy_n{policy(p, observation_no), log_std(p)};
  const Tensor action_nd = policy_n.sample(noise);
  return {action_nd, policy_n.log_prob(action_nd), value_n};
}

Tensor ActorCritic::best_action(const Params& p, const Tensor& observation_no) const {
  const Tensor head = policy(p, observation_no);
  return discrete_ ? as_action(Categorical{head}.mode()) : head;
}

Judgement ActorCritic::judge(const Params& p, const Tensor& observation_no,
                             const Tensor& action_nd) const {
  const Tensor value_n = value(p, observation_no);
  if (discrete_) {
    const Categorical policy_n{policy(p, observation_no)};
    return {policy_n.log_prob(as_ids(action_nd)), policy_n.entropy(), value_n};
  }
  const Gaussian policy_n{policy(p, observation_no), log_std(p)};
  return {policy_n.log_prob(action_nd), policy_n.entropy(), value_n};
}

}  // namespace mstrain::reinforcement
