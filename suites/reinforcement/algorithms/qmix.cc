#include "suites/reinforcement/algorithms/qmix.h"

#include <cmath>

#include "core/base/error.h"
#include "core/ops/arrange.h"
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

constexpr double kNearZero = 0.1;  // gain of the last layer of Q

Tensor elu(const Tensor& x) { return where(x > 0, x, exp(minimum(x, 0.0)) - 1); }

class TeamModel final : public OffPolicyModel {
 public:
  TeamModel(const Qmix& config, const EnvSpec& env, const NetworkConfig& network)
      : config_(config),
        network_(network),
        agents_(env.agents),
        observation_size_(env.observation.size()),
        own_numbers_(env.own_numbers == 0 ? observation_size_ : env.own_numbers),
        actions_(env.action.n) {
    refuse_games(env);
    refuse_memory(network);
    if (agents_ == 1) {
      throw ConfigError(fmt::format(
          "algorithm.type: qmix is for teams, and {} has one agent; dqn learns for one", env.name));
    }
    if (!env.action.is_discrete()) {
      throw ConfigError(
          fmt::format("algorithm.type: qmix chooses one of some actions, and those of {} are {}",
                      env.name, to_string(env.action)));
    }
  }

  std::vector<ParamSpec> specs() const override {
    return declare_params([&](const Params& p) {
      const Tensor observation = zeros({Dtype::kF32, {1, agents_ * observation_size_}});
      mixed(p, zeros({Dtype::kF32, {1, agents_}}), observation);
      values(p, zeros({Dtype::kF32, {1, observation_size_}}));
    });
  }
  int64_t noise_size() const override { return EpsilonGreedy::kNoise; }
  bool noise_is_normal() const override { return false; }
  bool is_of_teams() const override { return true; }

  Tensor act(const Params& p, const Tensor& observation_no, const Tensor& noise_n2,
             const Tensor& explore) const override {
    return EpsilonGreedy::act(best_action(p, observation_no), actions_, noise_n2, explore);
  }
  Tensor best_action(const Params& p, const Tensor& observation_no) const override {
    return expand_dims(cast(argmax(values(p, observation_no), -1), Dtype::kF32), -1);
  }
  // Without a mixer each agent has a value of the team's reward.
  Tensor worth(const Params& p, const Tensor& observation) const override {
    const Tensor best_ba =
        reshape(max(values(p, agents_of(observation)), {-1}), {observation.dim(0), agents_});
    return mean(mixed(p, best_ba, observation), {1});
  }

  OffPolicyLoss loss(const Params& p, const Params& target,
                     const OffPolicyBatch& batch) const override {
    const Tensor next_n = agents_of(batch.next_observation_bo);
    const Tensor next_na = values(target, next_n);
    const Tensor best_n = argmax(config_.double_q ? values(p, next_n) : next_na, -1);
    const Tensor now_ba = of(values(p, agents_of(batch.observation_bo)),
                             cast(reshape(batch.action_bd, {-1}), Dtype::kI32));
    // [b, 1], or without a mixer [b, A]
    const Tensor now_bq = mixed(p, now_ba, batch.observation_bo);
    const Tensor next_bq = mixed(target, of(next_na, best_n), batch.next_observation_bo);
    const Tensor target_bq =
        expand_dims(batch.reward_b, -1) + expand_dims(batch.discount_b, -1) * next_bq;
    const Tensor error_bq = now_bq - mstrain::stop_gradient(target_bq);
    return {{mean(batch.weight_b * mean(huber(error_bq), {1})), {{"q", mean(now_bq)}}},
            mean(abs(error_bq), {1})};
  }

 private:
  // [b, A o] -> [b A, o]
  Tensor agents_of(const Tensor& observation) const {
    return reshape(observation, {observation.dim(0) * agents_, observation_size_});
  }
  // What the team sees: behind what is the first agent's own, or all observations.
  Tensor state_of(const Tensor& observation) const {
    return own_numbers_ == observation_size_
               ? observation
               : observation[{kAll, Slice{own_numbers_, observation_size_}}];
  }
  Tensor values(const Params& p, const Tensor& observation_no) const {
    const Tensor own_no = own_numbers_ == observation_size_
                              ? observation_no
                              : observation_no[{kAll, Slice{0, own_numbers_}}];
    return perceptron(p / "q", own_no, network_, actions_, kNearZero);
  }
  // Of actions_n, by agents: [b, A].
  Tensor of(const Tensor& values_na, const Tensor& actions_n) const {
    return reshape(take_along(values_na, expand_dims(actions_n, -1), 1), {-1, agents_});
  }
  Tensor mixed(const Params& p, const Tensor& q_ba, const Tensor& observation) const {
    if (config_.mixer == Mixer::kNone) {
      return q_ba;
    }
    if (config_.mixer == Mixer::kVdn) {
      return sum(q_ba, {1}, /*keep_dims=*/true);
    }
    const Tensor state_bs = state_of(observation);
    const int64_t b = state_bs.dim(0);
    const int64_t width = config_.mixing;
    const Params folder = p / "mixer";
    const auto layer = [&](const char* name, const Tensor& x, int64_t outputs) {
      return linear(folder / name, x, {outputs},
                    {.weight_init = normal_init(1 / std::sqrt(static_cast<double>(x.dim(-1)))),
                     .bias_init = zeros_init()});
    };
    const Tensor w1_baw = abs(reshape(layer("w1", state_bs, agents_ * width), {b, agents_, width}));
    const Tensor hidden_bw =
        elu(sum(expand_dims(q_ba, -1) * w1_baw, {1}) + layer("b1", state_bs, width));
    const Tensor w2_bw = abs(layer("w2", state_bs, width));
    const Tensor b2_b1 = layer("b2", maximum(layer("b2_hidden", state_bs, width), 0.0), 1);
    return sum(hidden_bw * w2_bw, {1}, /*keep_dims=*/true) + b2_b1;
  }

  const Qmix& config_;
  NetworkConfig network_;
  int64_t agents_, observation_size_, own_numbers_, actions_;
};

}  // namespace

std::unique_ptr<OffPolicyModel> Qmix::model(const EnvSpec& env,
                                            const NetworkConfig& network) const {
  return std::make_unique<TeamModel>(*this, env, network);
}

void Qmix::fields(ConfigFields& v) {
  v("type", type, "how the agents learn", rule::one_of({"qmix"}));
  common_fields(v);
  v("mixer", mixer,
    "the value of what a team does, of the values of what each does. qmix: grows with each, by "
    "the state; vdn: their sum; none: each learns for itself",
    rule::one_of({"qmix", "vdn", "none"}));
  v("mixing", mixing, "qmix: width of the mixer's hidden layer",
    rule::at_least(1).at_most(65536).elsewhere_called({"mixing_embed_dim"}));
  v("double", double_q, "what follows is chosen by the network that learns",
    rule::elsewhere_called({"double_q", "double_dqn"}));
  explore.fields(v);
}

}  // namespace mstrain::reinforcement
