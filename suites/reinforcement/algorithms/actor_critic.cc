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
    Memory memory;
    if (config_.memory > 0) {
      memory = zeros({Dtype::kF32, {1, memory_size()}});
    }
    const Seen now = recalled(p, zeros({Dtype::kF32, {1, observation_size_}}), memory);
    policy(p, now.policy_no);
    if (!discrete_) {
      log_std(p);
    }
    value_of(p, now.value_no);
  });
}

ActorCritic::Seen ActorCritic::seen(const Tensor& observation_no) const {
  return {own_numbers_ == observation_size_ ? observation_no
                                            : observation_no[{kAll, Slice{0, own_numbers_}}],
          observation_no};
}

ActorCritic::Seen ActorCritic::recalled(const Params& p, const Tensor& observation_no,
                                        const Memory& memory) const {
  const Seen now = seen(observation_no);
  if (!memory) {
    return now;
  }
  const int64_t units = config_.memory;
  const auto step = [&](const Params& folder, const Tensor& x_no, int64_t first) {
    return remembered(folder, x_no, (*memory)[{kAll, Slice{first, first + units}}]);
  };
  return {step(p / "policy" / "memory", now.policy_no, 0),
          step(p / "value" / "memory", now.value_no, units)};
}

ActorCritic::Seen ActorCritic::recalled(const Params& p, const Tensor& observation_no,
                                        const Past& past) const {
  const Seen now = seen(observation_no);
  const int64_t units = config_.memory;
  const auto steps_of = [&](const Params& folder, const Tensor& x_no, int64_t first) {
    return remembered(folder, x_no, past.memory_rm[{kAll, Slice{first, first + units}}],
                      past.kept_tr);
  };
  return {steps_of(p / "policy" / "memory", now.policy_no, 0),
          steps_of(p / "value" / "memory", now.value_no, units)};
}

ActorCritic::Memory ActorCritic::memory_of(const Seen& recalled, const Memory& before) {
  if (!before) {
    return std::nullopt;
  }
  return concat(Tensors{recalled.policy_no, recalled.value_no}, 1);
}

Tensor ActorCritic::policy(const Params& p, const Tensor& seen_no) const {
  return perceptron(p / "policy", seen_no, config_, actions_, kUndecided);
}

Tensor ActorCritic::log_std(const Params& p) const {
  return (p / "policy").get("log_std", {actions_}, zeros_init(), /*decay=*/false);
}

Tensor ActorCritic::value_of(const Params& p, const Tensor& seen_no) const {
  return squeeze(perceptron(p / "value", seen_no, config_, 1, 1.0), -1);
}

Tensor ActorCritic::value(const Params& p, const Tensor& observation_no,
                          const Memory& memory) const {
  return value_of(p, recalled(p, observation_no, memory).value_no);
}

Decision ActorCritic::decide(const Params& p, const Tensor& observation_no, const Tensor& noise,
                             const Memory& memory) const {
  const Seen now = recalled(p, observation_no, memory);
  Decision out = decided(p, now, noise);
  out.memory_nm = memory_of(now, memory);
  return out;
}

Decision ActorCritic::decided(const Params& p, const Seen& seen, const Tensor& noise) const {
  const Tensor value_n = value_of(p, seen.value_no);
  if (discrete_) {
    const Categorical policy_n{policy(p, seen.policy_no)};
    const Tensor ids_n = policy_n.sample(noise);
    return {as_action(ids_n), policy_n.log_prob(ids_n), value_n, std::nullopt};
  }
  const Gaussian policy_n{policy(p, seen.policy_no), log_std(p)};
  const Tensor action_nd = policy_n.sample(noise);
  return {action_nd, policy_n.log_prob(action_nd), value_n, std::nullopt};
}

Choice ActorCritic::best_action(const Params& p, const Tensor& observation_no,
                                const Memory& memory) const {
  const Seen now = recalled(p, observation_no, memory);
  const Tensor head = policy(p, now.policy_no);
  return {discrete_ ? as_action(Categorical{head}.mode()) : head, value_of(p, now.value_no),
          memory_of(now, memory)};
}

Judgement ActorCritic::judge(const Params& p, const Tensor& observation_no, const Tensor& action_nd,
                             const std::optional<Past>& past) const {
  const Seen now = past ? recalled(p, observation_no, *past) : seen(observation_no);
  const Tensor value_n = value_of(p, now.value_no);
  if (discrete_) {
    const Categorical policy_n{policy(p, now.policy_no)};
    return {policy_n.log_prob(as_ids(action_nd)), policy_n.entropy(), value_n};
  }
  const Gaussian policy_n{policy(p, now.policy_no), log_std(p)};
  return {policy_n.log_prob(action_nd), policy_n.entropy(), value_n};
}

}  // namespace mstrain::reinforcement
