#include "suites/reinforcement/algorithms/networks.h"

#include <cmath>

#include "core/base/error.h"
#include "core/nn/gru.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/transform/scan.h"

namespace mstrain::reinforcement {
namespace {

LinearOptions scaled(int64_t inputs, double gain) {
  return {.weight_init = normal_init(gain / std::sqrt(static_cast<double>(inputs))),
          .bias_init = zeros_init()};
}

}  // namespace

Tensor hidden_layers(const Params& p, Tensor x, const NetworkConfig& config) {
  for (size_t i = 0; i < config.hidden.size(); ++i) {
    x = activate(config.activation, linear(p / static_cast<int64_t>(i), x, {config.hidden[i]},
                                           scaled(x.dim(-1), std::sqrt(2.0))));
  }
  return x;
}

Tensor perceptron(const Params& p, const Tensor& x_no, const NetworkConfig& config, int64_t outputs,
                  double gain) {
  const Tensor hidden = hidden_layers(p, x_no, config);
  return linear(p / "head", hidden, {outputs}, scaled(hidden.dim(-1), gain));
}

Tensor remembered(const Params& p, const Tensor& x_no, const Tensor& memory_nm) {
  return gru_step(p, gru_inputs(p, x_no, memory_nm.dim(1)), memory_nm);
}

Tensor remembered(const Params& p, const Tensor& x_no, const Tensor& memory_rm,
                  const Tensor& kept_tr) {
  const int64_t steps = kept_tr.dim(0), rows = kept_tr.dim(1), units = memory_rm.dim(1);
  const Tensor inputs = reshape(gru_inputs(p, x_no, units), {steps, rows, 3 * units});
  const auto step = [&](const Tensor& h_ru, const std::pair<Tensor, Tensor>& at) {
    const Tensor next_ru = gru_step(p, at.first, h_ru * at.second);
    return std::pair(next_ru, next_ru);
  };
  const auto [last, all_tru] =
      scan(step, memory_rm, std::pair(inputs, reshape(kept_tr, {steps, rows, 1})));
  return reshape(all_tru, {steps * rows, units});
}

void refuse_games(const EnvSpec& env) {
  if (env.masks || env.turns) {
    throw ConfigError(fmt::format(
        "environment.name: {} is a game, whose agents take turns or have actions that are not "
        "always legal; algorithm.type alphazero plays games, but for those with chance, hidden "
        "cards "
        "or rewards on the way, muzero those of one player, and td_afterstate 2048",
        env.name));
  }
}

void refuse_team_view(const EnvSpec& env) {
  if (env.own_numbers > 0) {
    throw ConfigError(
        "environment.team_view: is for values beside a policy, as ppo, a2c and impala have them");
  }
}

void refuse_memory(const NetworkConfig& config) {
  if (config.memory > 0) {
    throw ConfigError(
        "network.memory: is for algorithms that learn from steps in their order: ppo, a2c, impala "
        "and dqn");
  }
}

}  // namespace mstrain::reinforcement
