#include "suites/reinforcement/algorithms/networks.h"

#include <cmath>

#include "core/base/error.h"

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

void refuse_games(const EnvSpec& env) {
  if (env.masks || env.turns) {
    throw ConfigError(fmt::format(
        "environment.name: {} is a game, whose agents take turns or have actions that are not "
        "always legal; algorithm.type alphazero plays games, but for those with chance, hidden "
        "cards "
        "or rewards on the way, and muzero those of one player",
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
        "network.memory: is for algorithms that learn from what was just done, in its order: ppo, "
        "a2c and impala");
  }
}

}  // namespace mstrain::reinforcement
