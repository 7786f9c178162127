#include "suites/reinforcement/train/muzero_plan.h"

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "suites/reinforcement/train/placed_envs.h"
#include "suites/reinforcement/train/searched_steps.h"

namespace mstrain::reinforcement {

const MuZero& muzero_of(const Config& config) {
  return dynamic_cast<const MuZero&>(*config.algorithm);
}

void check_muzero(const Config& config, const YamlNode& tree, int64_t ranks) {
  const MuZero& algorithm = muzero_of(config);
  check_one_holder(config, tree, ranks, algorithm.type + " keeps its steps");
  const int64_t least = config.environment.num_envs * (algorithm.unroll + algorithm.n_step + 1);
  if (algorithm.buffer_size < least) {
    config_fail(tree, "algorithm.buffer_size",
                fmt::format("{} steps hold no sequence of unroll and n_step of every environment: "
                            "expected at least {}",
                            algorithm.buffer_size, least));
  }
}

AgentPlan plan_muzero(const Config& config, const YamlNode& tree, int64_t ranks) {
  check_muzero(config, tree, ranks);
  const MuZero& algorithm = muzero_of(config);
  const EnvSpec spec = make_env(config.environment.env, 1)->spec();
  const MuZeroModel model(algorithm, spec, config.network);
  AgentPlan plan = plan_parameters(model.specs(), config.optimizer);
  plan.optimizer_bytes += plan.model_bytes;  // the weights that learn
  int64_t widest =
      spec.observation.size() + 8 * algorithm.state_size + 4 * (2 * algorithm.support + 1);
  int64_t networks = 4;  // of a step: dynamics, reward, value, policy
  if (algorithm.has_chance()) {
    networks += 4;  // afterstate, its value, chance, encoder
    widest += 2 * spec.observation.size() + 8 * algorithm.state_size +
              2 * (2 * algorithm.support + 1) + 6 * algorithm.chance_codes;
  }
  for (const int64_t width : config.network.hidden) {
    widest += networks * 2 * width;  // there and back
  }
  const int64_t kept = SearchedSteps::bytes_of(algorithm, config.environment.num_envs, spec);
  plan.data_bytes = 3 * kept;  // a checkpoint is written from copies
  plan.program_bytes =
      plan.model_bytes + algorithm.batch_size * (algorithm.unroll + 1) * widest * 4;
  plan.env_steps = algorithm.train_every * config.environment.num_envs;
  plan.updates = algorithm.updates;
  plan.learning_starts = algorithm.learning_starts;
  plan.kept_steps = algorithm.buffer_size;
  const Roles roles(config, ranks);
  if (roles.serves()) {
    plan.who.push_back(served_hosts(roles));
    plan.who.push_back(served_edges(spec, roles));
  }
  plan.who.push_back(fmt::format(
      "rank 0: {}searches ({} simulations{}), steps, learner",
      roles.serves() ? "" : fmt::format("environments ({}), ", roles.each()), algorithm.simulations,
      algorithm.has_chance() ? fmt::format(", {} codes of chance", algorithm.chance_codes) : ""));
  plan.who.push_back(fmt::format("steps (each step): the same memory, a ring of {} bytes for {}",
                                 grouped(kept), grouped(algorithm.buffer_size)));
  plan.who.push_back(fmt::format("sequences (each update): {} of {} steps, drawn {}",
                                 grouped(algorithm.batch_size), algorithm.unroll,
                                 algorithm.prioritised ? "by priority" : "alike"));
  return plan;
}

}  // namespace mstrain::reinforcement
