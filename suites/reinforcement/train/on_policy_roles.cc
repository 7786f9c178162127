#include "suites/reinforcement/train/on_policy_roles.h"

#include <limits>

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "suites/reinforcement/train/placed_envs.h"
#include "suites/reinforcement/train/roles.h"
#include "suites/reinforcement/train/rollout.h"

namespace mstrain::reinforcement {

void check_on_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  const OnPolicy& algorithm = on_policy_of(config);
  const Roles roles(config, ranks);
  check_hosts(config, tree, roles);
  const bool learns_from_all = roles.serves() || (roles.gathers() && !roles.free);
  const int64_t learnt = (learns_from_all ? roles.environments : roles.each()) *
                         make_env(config.environment.env, 1)->spec().agents;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // what OnPolicyLearner counts by
  if (algorithm.steps > kMost / learnt) {
    config_fail(tree, "algorithm.steps",
                fmt::format("{} of {} rows are more than the {} that are learned from at once; "
                            "expected at most {}",
                            algorithm.steps, learnt, kMost, kMost / learnt));
  }
  if (roles.central() && algorithm.last_kl()) {
    config_fail(tree, "algorithm.kl_stop",
                "central: all learners take as many updates; expected null, or kl_target");
  }
  if (config.network.memory > 0) {
    const int64_t envs = roles.serves() ? roles.environments : roles.each();
    const int64_t rows = envs * make_env(config.environment.env, 1)->spec().agents;
    if (rows % algorithm.minibatches != 0) {
      config_fail(tree, "algorithm.minibatches",
                  fmt::format("with network.memory a minibatch has all steps of some rows: {} do "
                              "not divide the {} rows of a rank",
                              algorithm.minibatches, rows));
    }
  } else if (algorithm.steps % algorithm.minibatches != 0) {
    config_fail(
        tree, "algorithm.minibatches",
        fmt::format("{} do not divide algorithm.steps {}", algorithm.minibatches, algorithm.steps));
  }
}

AgentPlan plan_on_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  check_on_policy(config, tree, ranks);
  const OnPolicy& algorithm = on_policy_of(config);
  const EnvSpec spec = make_env(config.environment.env, 1)->spec();
  const ActorCritic network(spec, config.network);
  AgentPlan plan = plan_parameters(network.specs(), config.optimizer);
  const Roles roles(config, ranks);
  const int64_t rows = (roles.serves() ? roles.environments : roles.each()) * spec.agents;
  const Rollout row(algorithm.steps, 1, network);
  int64_t widest = network.observation_size() + network.action_size();
  for (const int64_t width : config.network.hidden) {
    // Of policy and value, forwards and backwards: 2.3 (tanh) to 4.6 (silu) are measured.
    widest += 5 * width;
  }
  widest += 2 * 16 * config.network.memory;  // gates and states of both
  plan.data_bytes = rows * (row.bytes() + 4 * network.memory_size());
  plan.program_bytes =
      plan.model_bytes + algorithm.steps * rows / algorithm.minibatches * widest * 4;
  plan.env_steps = algorithm.steps * config.environment.num_envs;
  plan.updates = algorithm.epochs * algorithm.minibatches;
  const bool shares = roles.policy == Placement::kMultiLearner;
  plan.who.push_back(served_hosts(roles) + (roles.serves() ? "" : ", actor") +
                     (ranks == 1 || shares || roles.central() ? ", learner" : ""));
  if (roles.central()) {
    const int64_t bound = config.distribution.max_staleness;
    plan.who.push_back("rank 0: parameters, optimizer");
    plan.who.push_back("observations, actions (each step): the same memory");
    plan.who.push_back(fmt::format("trajectories (each iteration): the same memory, {} bytes",
                                   grouped(plan.data_bytes)));
    plan.who.push_back(fmt::format("gradients (each minibatch): {} bytes from each learner",
                                   grouped(plan.model_bytes)));
    plan.who.push_back(fmt::format(
        "parameters (each minibatch): {} bytes to each learner, who is at most {} updates behind",
        grouped(plan.model_bytes), bound));
    // Versions and gradients that are on their way, and one of each as a message.
    plan.data_bytes += 2 * (bound + 2) * plan.model_bytes;
    return plan;
  }
  if (roles.gathers()) {
    plan.who.push_back(roles.free      ? "rank 0: learner, of what each actor brings, as it comes"
                       : roles.async() ? "rank 0: learner, of the steps of the iteration before"
                                       : "rank 0: learner");
    plan.who.push_back("observations, actions (each step): the same memory");
    plan.who.push_back(
        fmt::format("trajectories (each iteration): a packed message of {} bytes from each actor",
                    grouped(plan.data_bytes)));
    plan.who.push_back(
        roles.free ? fmt::format(
                         "parameters (each iteration): {} bytes to each actor who brought some; at "
                         "most {} updates behind, or what it brings is thrown away",
                         grouped(plan.model_bytes), config.distribution.max_staleness)
                   : fmt::format("parameters (each iteration): one broadcast of {} bytes",
                                 grouped(plan.model_bytes)));
    plan.data_bytes *= 2 * roles.hosts() + 1;
    if (roles.free) {  // an iteration is of one actor's environments
      plan.env_steps = algorithm.steps * roles.each();
      return plan;
    }
    plan.program_bytes = plan.model_bytes + roles.hosts() * (plan.program_bytes - plan.model_bytes);
    return plan;
  }
  if (roles.serves()) {
    plan.who.push_back("rank 0: actor of all environments, learner");
    plan.who.push_back(served_edges(spec, roles));
  } else {
    plan.who.push_back("observations, actions (each step): the same memory");
  }
  plan.who.push_back(fmt::format("trajectories (each iteration): the same memory, {} bytes",
                                 grouped(plan.data_bytes)));
  plan.who.push_back("parameters (each update): the same memory");
  if (shares) {
    plan.who.push_back(fmt::format(
        "gradients (each minibatch): all_reduce of {} bytes, {} an iteration; advantages: "
        "all_reduce of {} bytes, {} an iteration",
        grouped(plan.model_bytes), plan.updates, 16 * algorithm.minibatches, algorithm.epochs));
  }
  return plan;
}

}  // namespace mstrain::reinforcement
