#include "suites/reinforcement/train/off_policy_roles.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "suites/reinforcement/train/placed_envs.h"
#include "suites/reinforcement/train/roles.h"
#include "suites/reinforcement/train/steps_on_disk.h"

namespace mstrain::reinforcement {

ReplayShape replay_shape(const Config& config, const EnvSpec& env, const OffPolicyModel& model) {
  const OffPolicy& algorithm = off_policy_of(config);
  const int64_t together = model.is_of_teams() ? env.agents : 1;
  return {.steps = algorithm.buffer_size / config.environment.num_envs,
          .rows = config.environment.num_envs * env.agents / together,
          .observation_size = env.observation.size() * together,
          .action_size = env.action.size() * together,
          .memory_size = model.memory_size(),
          .burn_in = model.memory_size() > 0 ? algorithm.burn_in : 0,
          .unroll = model.memory_size() > 0 ? algorithm.unroll : 1,
          .n_step = algorithm.n_step,
          .discount = algorithm.discount,
          .priority_exponent =
              algorithm.prioritised ? std::optional(algorithm.priority_exponent) : std::nullopt};
}

void check_off_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  const OffPolicy& algorithm = off_policy_of(config);
  const Roles roles(config, ranks);
  if (ranks > 1 && !roles.serves()) {
    config_fail(tree, "distribution.policy",
                fmt::format("{} keeps its memory on one rank: expected single, single_learner_fine "
                            "or env_servers",
                            algorithm.type));
  }
  check_hosts(config, tree, roles);
  const int64_t envs = config.environment.num_envs;
  const bool of_sequences = config.network.memory > 0;
  const int64_t length =
      algorithm.n_step + (of_sequences ? algorithm.burn_in + algorithm.unroll - 1 : 0);
  const int64_t least = std::max(envs * length, algorithm.batch_size);
  if (algorithm.buffer_size < least) {
    config_fail(
        tree, "algorithm.buffer_size",
        fmt::format("{} steps are fewer than a batch, or than {} of every environment: "
                    "expected at least {}",
                    algorithm.buffer_size,
                    of_sequences ? "a sequence (burn_in, unroll, n_step)" : "n_step", least));
  }
}

AgentPlan plan_off_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  check_off_policy(config, tree, ranks);
  const OffPolicy& algorithm = off_policy_of(config);
  const EnvSpec spec = make_env(config.environment.env, 1)->spec();
  const std::unique_ptr<OffPolicyModel> model = algorithm.model(spec, config.network);
  AgentPlan plan = plan_parameters(model->specs(), config.optimizer);
  int64_t widest = 2 * spec.observation.size() + 3 * spec.action.size();
  for (const int64_t width : config.network.hidden) {
    widest += 4 * 3 * 2 * width;  // actor and critics, of steps and of what follows, there and back
  }
  widest *= model->is_of_teams() ? spec.agents : 1;
  widest += 3 * 2 * 8 * model->memory_size();  // gates and states, as above
  const ReplayShape replay = replay_shape(config, spec, *model);
  plan.optimizer_bytes += plan.model_bytes;  // the parameters that follow
  const bool on_disk = algorithm.buffer_on == BufferOn::kDisk;
  const int64_t steps_bytes =
      on_disk ? StepsOnDisk::memory_bytes(replay.store()) : replay.step_bytes();
  const int64_t saved_bytes = steps_bytes + replay.saved_priority_bytes();
  plan.data_bytes = steps_bytes + replay.priority_bytes() +
                    2 * saved_bytes;  // a checkpoint is written from copies
  plan.disk_bytes = on_disk ? replay.step_bytes() : 0;
  const int64_t observations = replay.is_of_sequences() ? replay.length() : 1;  // of an item
  plan.program_bytes = plan.model_bytes + algorithm.batch_size * observations * widest * 4;
  plan.env_steps = algorithm.train_every * config.environment.num_envs;
  plan.updates = algorithm.updates;
  const Roles roles(config, ranks);
  if (roles.serves()) {
    plan.who.push_back(served_hosts(roles));
    plan.who.push_back("rank 0: actor of all environments, memory, learner");
    plan.who.push_back(served_edges(spec, roles));
  } else {
    plan.who.push_back(
        fmt::format("rank 0: environments ({}), actor, memory, learner", roles.each()));
  }
  plan.who.push_back(
      on_disk
          ? fmt::format("steps (each step): files of {} bytes for the newest {}, and of those that "
                        "checkpoints need; {} bytes of memory",
                        grouped(plan.disk_bytes), grouped(replay.items()), grouped(steps_bytes))
          : fmt::format("steps (each step): the same memory, a ring of {} bytes for {}",
                        grouped(steps_bytes), grouped(replay.items())));
  if (algorithm.prioritised) {
    plan.who.push_back(fmt::format("priorities (each update): the same memory, {} bytes",
                                   grouped(replay.priority_bytes())));
  }
  plan.who.push_back(
      fmt::format("the memory (each checkpoint): two copies of {} bytes", grouped(saved_bytes)));
  plan.who.push_back(fmt::format(
      "batches (each update): {} {}, {}", grouped(algorithm.batch_size),
      replay.is_of_sequences()
          ? fmt::format("sequences of {} steps behind {}", replay.unroll, replay.burn_in)
          : "steps",
      algorithm.prioritised ? "by priority" : "drawn alike"));
  return plan;
}

}  // namespace mstrain::reinforcement
