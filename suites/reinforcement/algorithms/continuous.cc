#include "suites/reinforcement/algorithms/continuous.h"

#include <cmath>

#include "core/base/error.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/slicing.h"
#include "core/ops/statistics.h"
#include "suites/reinforcement/algorithms/distributions.h"
#include "suites/reinforcement/algorithms/networks.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kSmallActor = 0.01;                   // gain of the actor's last layer
constexpr double kLeastLogStd = -20, kMostLogStd = 2;  // as the authors' own program

class BoxModel : public OffPolicyModel {
 public:
  BoxModel(const std::string& type, const EnvSpec& env, const NetworkConfig& network,
           int64_t critics)
      : network_(network),
        observation_size_(env.observation.size()),
        size_(env.action.size()),
        critics_(critics) {
    refuse_games(env);
    refuse_team_view(env);
    refuse_memory(network);
    bool bounded = !env.action.is_discrete();
    for (size_t i = 0; bounded && i < env.action.low.size(); ++i) {
      bounded = std::isfinite(env.action.low[i]) && std::isfinite(env.action.high[i]);
    }
    if (!bounded) {
      throw ConfigError(
          fmt::format("algorithm.type: {} acts in boxes with bounds, and actions of {} are {}{}",
                      type, env.name, to_string(env.action),
                      env.action.is_discrete() ? "; dqn chooses of some" : ""));
    }
  }

  std::vector<ParamSpec> specs() const override {
    return declare_params([&](const Params& p) {
      const Tensor observation = zeros({Dtype::kF32, {1, observation_size_}});
      declare_actor(p, observation);
      least_value(p, observation, zeros({Dtype::kF32, {1, size_}}));
    });
  }
  int64_t noise_size() const override { return size_; }
  bool noise_is_normal() const override { return true; }
  Tensor worth(const Params& p, const Tensor& observation_no) const override {
    return least_value(p, observation_no, best_action(p, observation_no));
  }

 protected:
  virtual void declare_actor(const Params& p, const Tensor& observation_no) const = 0;

  Tensor value(const Params& p, int64_t critic, const Tensor& observation_no,
               const Tensor& action_nd) const {
    return squeeze(perceptron(p / "critic" / critic, concat(Tensors{observation_no, action_nd}, -1),
                              network_, 1, 1.0),
                   -1);
  }
  Tensor least_value(const Params& p, const Tensor& observation_no, const Tensor& action_nd) const {
    Tensor least_n = value(p, 0, observation_no, action_nd);
    for (int64_t i = 1; i < critics_; ++i) {
      least_n = minimum(least_n, value(p, i, observation_no, action_nd));
    }
    return least_n;
  }

  struct CriticLoss {
    Tensor loss, q, error_b;
  };
  CriticLoss critic_loss(const Params& p, const OffPolicyBatch& batch,
                         const Tensor& next_value_b) const {
    const Tensor target_b =
        mstrain::stop_gradient(batch.reward_b + batch.discount_b * next_value_b);
    CriticLoss out;
    for (int64_t i = 0; i < critics_; ++i) {
      const Tensor q_b = value(p, i, batch.observation_bo, batch.action_bd);
      const Tensor error_b = q_b - target_b;
      const Tensor loss = mean(batch.weight_b * square(error_b));
      out = i == 0 ? CriticLoss{loss, mean(q_b), error_b}
                   : CriticLoss{out.loss + loss, out.q, out.error_b};
    }
    return out;
  }

  NetworkConfig network_;
  int64_t observation_size_, size_, critics_;
};

class SoftModel final : public BoxModel {
 public:
  SoftModel(const Sac& config, const EnvSpec& env, const NetworkConfig& network)
      : BoxModel("sac", env, network, 2), config_(config) {}

  Tensor act(const Params& p, const Tensor& observation_no, const Tensor& noise_nd,
             const Tensor& /*explore*/) const override {
    return sample_squashed(policy(p, observation_no), noise_nd).action_nd;
  }
  Tensor best_action(const Params& p, const Tensor& observation_no) const override {
    return tanh(policy(p, observation_no).mean_nd);
  }

  OffPolicyLoss loss(const Params& p, const Params& target,
                     const OffPolicyBatch& batch) const override {
    const Tensor log_temperature = this->log_temperature(p);
    const Tensor temperature = mstrain::stop_gradient(exp(log_temperature));
    const SquashedSample next =
        sample_squashed(policy(p, batch.next_observation_bo), batch.next_noise_bd);
    const CriticLoss critics =
        critic_loss(p, batch,
                    least_value(target, batch.next_observation_bo, next.action_nd) -
                        temperature * next.log_prob_n);
    const SquashedSample now = sample_squashed(policy(p, batch.observation_bo), batch.noise_bd);
    const Tensor value_b = least_value(stop_gradient(p), batch.observation_bo, now.action_nd);
    const Tensor actor = mean(temperature * now.log_prob_n - value_b);
    const Tensor entropy = mstrain::stop_gradient(-mean(now.log_prob_n));
    Tensor loss = critics.loss + actor;
    if (config_.temperature.is_word()) {
      const double wanted = config_.target_entropy.value_or(-static_cast<double>(size_));
      loss = loss - log_temperature * (wanted - entropy);
    }
    return {{loss,
             {{"critic_loss", critics.loss},
              {"actor_loss", actor},
              {"entropy", entropy},
              {"temperature", temperature},
              {"q", critics.q}}},
            critics.error_b};
  }

 private:
  void declare_actor(const Params& p, const Tensor& observation_no) const override {
    policy(p, observation_no);
    log_temperature(p);
  }
  Gaussian policy(const Params& p, const Tensor& observation_no) const {
    const Tensor head = perceptron(p / "actor", observation_no, network_, 2 * size_, kSmallActor);
    const int64_t n = head.dim(0);
    return {head[{Slice{0, n}, Slice{0, size_}}],
            clip(head[{Slice{0, n}, Slice{size_, 2 * size_}}], kLeastLogStd, kMostLogStd)};
  }
  // []
  Tensor log_temperature(const Params& p) const {
    if (!config_.temperature.is_word()) {
      return full({}, std::log(*config_.temperature.value));
    }
    return squeeze(p.get("log_temperature", {1}, zeros_init(), /*decay=*/false), 0);
  }

  const Sac& config_;
};

class DeterministicModel final : public BoxModel {
 public:
  DeterministicModel(const Td3& config, const EnvSpec& env, const NetworkConfig& network)
      : BoxModel(config.type, env, network, config.critics()), config_(config) {}

  Tensor act(const Params& p, const Tensor& observation_no, const Tensor& noise_nd,
             const Tensor& explore) const override {
    return clip(best_action(p, observation_no) + explore * noise_nd, -1, 1);
  }
  Tensor best_action(const Params& p, const Tensor& observation_no) const override {
    return tanh(perceptron(p / "actor", observation_no, network_, size_, kSmallActor));
  }

  OffPolicyLoss loss(const Params& p, const Params& target,
                     const OffPolicyBatch& batch) const override {
    Tensor next_bd = best_action(target, batch.next_observation_bo);
    if (config_.target_noise > 0) {
      next_bd = clip(next_bd + clip(batch.next_noise_bd * config_.target_noise,
                                    -config_.target_clip, config_.target_clip),
                     -1, 1);
    }
    const CriticLoss critics =
        critic_loss(p, batch, least_value(target, batch.next_observation_bo, next_bd));
    const Tensor actor = -mean(
        value(stop_gradient(p), 0, batch.observation_bo, best_action(p, batch.observation_bo)));
    return {{critics.loss + actor,
             {{"critic_loss", critics.loss}, {"actor_loss", actor}, {"q", critics.q}}},
            critics.error_b};
  }

 private:
  void declare_actor(const Params& p, const Tensor& observation_no) const override {
    best_action(p, observation_no);
  }
  const Td3& config_;
};

}  // namespace

std::unique_ptr<OffPolicyModel> Sac::model(const EnvSpec& env, const NetworkConfig& network) const {
  return std::make_unique<SoftModel>(*this, env, network);
}

void Sac::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"sac"}));
  common_fields(v);
  v("temperature", temperature,
    "what a unit of entropy is worth; auto: learned, so that there is target_entropy of it",
    rule::positive().elsewhere_called({"ent_coef"}));
  v("target_entropy", target_entropy, "auto: minus the numbers of an action");
}

std::unique_ptr<OffPolicyModel> Td3::model(const EnvSpec& env, const NetworkConfig& network) const {
  return std::make_unique<DeterministicModel>(*this, env, network);
}

void Td3::noise_fields(ConfigFields& v) {
  v("action_noise", action_noise, "deviation of what is added to actions, which lie in [-1, 1]",
    rule::at_least(0).elsewhere_called({"exploration_noise"}));
}

void Td3::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"td3"}));
  common_fields(v);
  noise_fields(v);
  v("target_noise", target_noise, "deviation of what is added to actions that make targets",
    rule::at_least(0).elsewhere_called({"target_policy_noise", "policy_noise"}));
  v("target_clip", target_clip, "and its bound",
    rule::positive().elsewhere_called({"target_noise_clip", "noise_clip"}));
  v("policy_delay", delay, "the policy learns in each update of so many",
    rule::at_least(1).elsewhere_called({"policy_frequency"}));
}

void Ddpg::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"ddpg"}));
  common_fields(v);
  noise_fields(v);
}

}  // namespace mstrain::reinforcement
