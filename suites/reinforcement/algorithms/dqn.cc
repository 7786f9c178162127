#include "suites/reinforcement/algorithms/dqn.h"

#include "core/base/error.h"
#include "core/ops/arrange.h"
#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/slicing.h"
#include "core/ops/softmax.h"
#include "core/ops/statistics.h"
#include "suites/reinforcement/algorithms/networks.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kSmall = 0.1;     // gain of the last layer: values begin near 0
constexpr double kGreatest = 0.9;  // its share in the error of a sequence

class QNetwork final : public OffPolicyModel {
 public:
  QNetwork(const Dqn& config, const EnvSpec& env, const NetworkConfig& network)
      : config_(config),
        network_(network),
        observation_size_(env.observation.size()),
        actions_(env.action.n) {
    refuse_games(env);
    refuse_team_view(env);
    if (!env.action.is_discrete()) {
      throw ConfigError(fmt::format(
          "algorithm.type: dqn chooses one of some actions, and those of {} are {}; sac, td3 and "
          "ddpg act in boxes",
          env.name, to_string(env.action)));
    }
    if (config.atoms == 1 || (config.atoms > 0 && config.v_min >= config.v_max)) {
      throw ConfigError(fmt::format(
          "algorithm.atoms: {} from v_min {} to v_max {}: expected 0, or at least 2 from the least "
          "to the largest return that there can be",
          config.atoms, config.v_min, config.v_max));
    }
  }

  std::vector<ParamSpec> specs() const override {
    return declare_params([&](const Params& p) {
      const Tensor observation = zeros({Dtype::kF32, {1, observation_size_}});
      const auto memory = memory_size() == 0
                              ? std::nullopt
                              : std::optional(zeros({Dtype::kF32, {1, memory_size()}}));
      values(p, seen(p, observation, memory));
    });
  }
  int64_t noise_size() const override { return EpsilonGreedy::kNoise; }
  bool noise_is_normal() const override { return false; }

  int64_t memory_size() const override { return network_.memory; }

  Tensor seen(const Params& p, const Tensor& observation_no,
              const std::optional<Tensor>& memory_nm) const override {
    return memory_nm ? remembered(p / "memory", observation_no, *memory_nm) : observation_no;
  }

  Tensor act(const Params& p, const Tensor& seen_no, const Tensor& noise_n2,
             const Tensor& explore) const override {
    return EpsilonGreedy::act(best_action(p, seen_no), actions_, noise_n2, explore);
  }

  Tensor best_action(const Params& p, const Tensor& seen_no) const override {
    return expand_dims(cast(argmax(values(p, seen_no), -1), Dtype::kF32), -1);
  }
  Tensor worth(const Params& p, const Tensor& seen_no) const override {
    return max(values(p, seen_no), {-1});
  }

  OffPolicyLoss loss(const Params& p, const Params& target,
                     const OffPolicyBatch& batch) const override {
    const Tensor action_b = cast(squeeze(batch.action_bd, -1), Dtype::kI32);
    const Steps by_p = steps(p, batch);
    const Tensor next = heads(target, steps(target, batch).next);
    const Tensor chosen_b = argmax(config_.double_q ? values(p, by_p.next) : means(next), -1);
    const Tensor now = of(heads(p, by_p.now), action_b);
    if (config_.atoms > 0) {
      const Tensor target_bz = projected(batch, softmax(of(next, chosen_b)));
      const Tensor error_b = soft_cross_entropy_rows(now, mstrain::stop_gradient(target_bz));
      return {{mean(weight(batch) * error_b), {{"q", mean(means(now))}}}, error(batch, error_b)};
    }
    const Tensor target_b = batch.reward_b + batch.discount_b * of(next, chosen_b);
    const Tensor error_b = now - mstrain::stop_gradient(target_b);
    return {{mean(weight(batch) * huber(error_b)), {{"q", mean(now)}}}, error(batch, error_b)};
  }

 private:
  // What is seen in front of the steps to learn from, and behind what they stand for.
  struct Steps {
    Tensor now, next;
  };
  Steps steps(const Params& p, const OffPolicyBatch& batch) const {
    if (!batch.sequences) {
      return {batch.observation_bo, batch.next_observation_bo};
    }
    const Sequences& s = *batch.sequences;
    const int64_t b = s.last_ub.dim(1);
    const int64_t learnt = s.last_ub.elements();
    const int64_t length = s.kept_lb.dim(0);
    const int64_t burnt = length - batch.next_observation_bo.dim(0) / b;
    const auto after = [&](const Params& folder, const Tensor& memory_bm, int64_t from,
                           int64_t to) {
      return remembered(folder, batch.observation_bo[Slice{from * b, to * b}], memory_bm,
                        s.kept_lb[Slice{from, to}]);
    };
    Tensor memory_bm = s.memory_bm;
    if (burnt > 0) {
      const Tensor all = after(stop_gradient(p) / "memory", memory_bm, 0, burnt);
      memory_bm = all[Slice{(burnt - 1) * b, burnt * b}];
    }
    const Tensor rest = after(p / "memory", memory_bm, burnt, length);
    const Tensor last_n = reshape(s.last_ub * b + iota({b}, 0, Dtype::kI32), {learnt});
    return {
        rest[Slice{0, learnt}],
        remembered(p / "memory", gather(batch.next_observation_bo, last_n), gather(rest, last_n))};
  }
  // Of each step to learn from.
  static Tensor weight(const OffPolicyBatch& batch) {
    return batch.sequences ? reshape(broadcast_to(batch.weight_b, batch.sequences->last_ub.shape()),
                                     {batch.sequences->last_ub.elements()})
                           : batch.weight_b;
  }
  // Of each item, of those of its steps.
  static Tensor error(const OffPolicyBatch& batch, const Tensor& error_n) {
    if (!batch.sequences) {
      return error_n;
    }
    const Tensor size_ub = abs(reshape(error_n, batch.sequences->last_ub.shape()));
    return kGreatest * max(size_ub, {0}) + (1 - kGreatest) * mean(size_ub, {0});
  }

  // Of every action its value [n, a], or the logits of its distribution [n, a, z].
  Tensor heads(const Params& p, const Tensor& seen_no) const {
    const auto of_actions = [&](const Params& folder, int64_t actions) {
      const int64_t each = std::max<int64_t>(1, config_.atoms);
      const Tensor flat = perceptron(folder, seen_no, network_, actions * each, kSmall);
      return config_.atoms == 0 ? flat : reshape(flat, {flat.dim(0), actions, each});
    };
    if (!config_.dueling) {
      return of_actions(p / "q", actions_);
    }
    const Tensor value = of_actions(p / "value", 1);
    const Tensor advantage = of_actions(p / "advantage", actions_);
    return value + advantage - mean(advantage, {1}, /*keep_dims=*/true);
  }
  Tensor means(const Tensor& heads) const {
    return config_.atoms == 0 ? heads : sum(softmax(heads) * support(), {-1});
  }
  Tensor values(const Params& p, const Tensor& seen_no) const { return means(heads(p, seen_no)); }
  Tensor support() const { return linspace(config_.v_min, config_.v_max, config_.atoms); }

  // What r + γ^n z is worth, whose atoms the neighbours of the support share: [b, z].
  Tensor projected(const OffPolicyBatch& batch, const Tensor& next_bz) const {
    const double step = (config_.v_max - config_.v_min) / static_cast<double>(config_.atoms - 1);
    const Tensor reached_bz =
        clip(expand_dims(batch.reward_b, -1) + expand_dims(batch.discount_b, -1) * support(),
             config_.v_min, config_.v_max);
    const Tensor place_bz1 = expand_dims((reached_bz - config_.v_min) / step, -1);
    const Tensor near_bzz =
        maximum(1 - abs(place_bz1 - iota({config_.atoms}, 0, Dtype::kF32)), 0.0);
    return sum(expand_dims(next_bz, -1) * near_bzz, {1});
  }
  static Tensor of(const Tensor& heads, const Tensor& action_n) {
    Tensor index = expand_dims(action_n, -1);
    if (heads.rank() == 3) {
      index = broadcast_to(expand_dims(index, -1), {heads.dim(0), 1, heads.dim(2)});
    }
    return squeeze(take_along(heads, index, 1), 1);
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
  v("atoms", atoms,
    "values that returns are distributed over (C51), evenly from v_min to v_max; 0: their mean is "
    "learned",
    rule::at_least(0).at_most(1000).elsewhere_called({"n_atoms", "num_atoms"}));
  v("v_min", v_min, "atoms: the least return");
  v("v_max", v_max, "atoms: the largest return");
  v("unroll", unroll, "network.memory: steps of a sequence that are learnt from",
    rule::at_least(1).at_most(4096).elsewhere_called({"sequence_length"}));
  v("burn_in", burn_in,
    "network.memory: steps in front of them, from which only what is remembered is taken",
    rule::at_least(0).at_most(4096));
  explore.fields(v);
}

}  // namespace mstrain::reinforcement
