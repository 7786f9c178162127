#include "suites/reinforcement/algorithms/dqn.h"

#include "core/base/error.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/slicing.h"
#include "core/ops/statistics.h"
#include "suites/reinforcement/algorithms/networks.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kSmall = 0.1;  // gain of the last layer: values begin near 0

class QNetwork final : public OffPolicyModel {
 public:
  QNetwork(const Dqn& config, const EnvSpec& env, const NetworkConfig& network)
      : config_(config),
        network_(network),
        observation_size_(env.observation.size()),
        actions_(env.action.n) {
    refuse_games(env);
    if (!env.action.is_discrete()) {
      throw ConfigError(fmt::format(
          "algorithm.type: dqn chooses one of some actions, and those of {} are {}; sac, td3 and "
          "ddpg act in boxes",
          env.name, to_string(env.action)));
    }
  }

  std::vector<ParamSpec> specs() const override {
    return declare_params([&](const Params& p) {
      values(p, zeros({Dtype::kF32, {1, observation_size_}}));
    });
  }
  int64_t noise_size() const override { return 2; }  // whether by chance, and which
  bool noise_is_normal() const override { return false; }

  Tensor act(const Params& p, const Tensor& observation_no, const Tensor& noise_n2,
             const Tensor& explore) const override {
    const int64_t n = noise_n2.dim(0);
    const Tensor whether_n1 = noise_n2[{Slice{0, n}, Slice{0, 1}}];
    const Tensor which_n1 = noise_n2[{Slice{0, n}, Slice{1, 2}}];
    const auto last = static_cast<double>(actions_ - 1);
    const Tensor any_n1 = minimum(floor(which_n1 * static_cast<double>(actions_)), last);
    return where(whether_n1 < explore, any_n1, best_action(p, observation_no));
  }

  Tensor best_action(const Params& p, const Tensor& observation_no) const override {
    return expand_dims(cast(argmax(values(p, observation_no), -1), Dtype::kF32), -1);
  }

  OffPolicyLoss loss(const Params& p, const Params& target,
                     const OffPolicyBatch& batch) const override {
    const Tensor q_b =
        of(values(p, batch.observation_bo), cast(squeeze(batch.action_bd, -1), Dtype::kI32));
    const Tensor next_ba = values(target, batch.next_observation_bo);
    const Tensor chosen_b =
        argmax(config_.double_q ? values(p, batch.next_observation_bo) : next_ba, -1);
    const Tensor target_b = batch.reward_b + batch.discount_b * of(next_ba, chosen_b);
    const Tensor error_b = q_b - mstrain::stop_gradient(target_b);
    return {{mean(batch.weight_b * huber(error_b)), {{"q", mean(q_b)}}}, error_b};
  }

 private:
  Tensor values(const Params& p, const Tensor& observation_no) const {
    if (!config_.dueling) {
      return perceptron(p / "q", observation_no, network_, actions_, kSmall);
    }
    const Tensor value_n1 = perceptron(p / "value", observation_no, network_, 1, kSmall);
    const Tensor advantage_na =
        perceptron(p / "advantage", observation_no, network_, actions_, kSmall);
    return value_n1 + advantage_na - mean(advantage_na, {-1}, /*keep_dims=*/true);
  }
  static Tensor of(const Tensor& values_na, const Tensor& action_n) {
    return squeeze(take_along(values_na, expand_dims(action_n, -1), -1), -1);
  }

  const Dqn& config_;
  NetworkConfig network_;
  int64_t observation_size_, actions_;
};

}  // namespace

std::unique_ptr<OffPolicyModel> Dqn::model(const EnvSpec& env, const NetworkConfig& network) const {
  return std::make_unique<QNetwork>(*this, env, network);
}

void Dqn::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"dqn"}));
  common_fields(v);
  v("double", double_q, "what follows is chosen by the network that learns",
    rule::elsewhere_called({"double_q", "double_dqn"}));
  v("dueling", dueling, "a value of the observation and advantages of actions, each with a network",
    rule::elsewhere_called({"duelling"}));
  v("epsilon", epsilon, "share of actions that are taken by chance, at first",
    rule::at_least(0).at_most(1).elsewhere_called({"exploration_initial_eps", "start_e"}));
  v("final_epsilon", final_epsilon, "and later",
    rule::at_least(0).at_most(1).elsewhere_called({"exploration_final_eps", "end_e"}));
  v("exploration", exploration, "share of the run over which it falls",
    rule::positive().at_most(1).elsewhere_called({"exploration_fraction"}));
}

}  // namespace mstrain::reinforcement
