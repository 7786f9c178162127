#include "suites/reinforcement/train/off_policy_roles.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "suites/reinforcement/train/placed_envs.h"
#include "suites/reinforcement/train/roles.h"
#include "suites/reinforcement/train/steps_on_disk.h"

namespace mstrain::reinforcement {

ReplayShape replay_shape(const Config& config, const EnvSpec& env, const OffPolicyModel& model,
                         int64_t learners) {
  const OffPolicy& algorithm = off_policy_of(config);
  const int64_t together = model.is_of_teams() ? env.agents : 1;
  return {.steps = algorithm.buffer_size / config.environment.num_envs,
          .rows = config.environment.num_envs * env.agents / together,
          .observation_size = env.observation.size() * together,
          .action_size = env.action.size() * together,
          .holders = learners,
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
  const int64_t learners = roles.learners();
  if (ranks > 1 && !roles.serves() && learners == 1) {
    config_fail(tree, "distribution.policy",
                fmt::format("{} learns where its memory is: expected single, single_learner_fine, "
                            "env_servers or multi_learner",
                            algorithm.type));
  }
  check_hosts(config, tree, roles);
  const int64_t parts = algorithm.parts.value_or(learners);
  if (parts % learners != 0) {
    config_fail(tree, "algorithm.parts",
                fmt::format("{} parts of a batch cannot be shared equally by {} learners", parts,
                            learners));
  }
  if (algorithm.batch_size % parts != 0) {
    config_fail(tree, "algorithm.batch_size",
                fmt::format("{} do not divide into {} equal parts, of which every learner has as "
                            "many (algorithm.parts)",
                            algorithm.batch_size, parts));
  }
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
  const Roles roles(config, ranks);
  const int64_t learners = roles.learners();
  const int64_t parts = algorithm.parts.value_or(learners);
  const ReplayShape replay = replay_shape(config, spec, *model, learners);
  plan.optimizer_bytes += plan.model_bytes;  // the parameters that follow
  const bool on_disk = algorithm.buffer_on == BufferOn::kDisk;
  const int64_t steps_bytes =
      on_disk ? StepsOnDisk::memory_bytes(replay.store()) : replay.step_bytes();
  const int64_t saved_bytes = steps_bytes + replay.saved_priority_bytes();
  plan.data_bytes = steps_bytes + replay.priority_bytes() +
                    2 * saved_bytes;  // a checkpoint is written from copies
  plan.disk_bytes = on_disk ? learners * replay.step_bytes() : 0;
  const int64_t observations = replay.is_of_sequences() ? replay.length() : 1;  // of an item
  const int64_t own_batch = algorithm.batch_size / learners;
  plan.program_bytes = plan.model_bytes * (parts > 1 ? 3 : 1) +  // gradients, and their sum
                       own_batch / (parts / learners) * observations * widest * 4 +
                       own_batch * replay.item_numbers() * 4;
  plan.env_steps = algorithm.train_every * config.environment.num_envs;
  plan.updates = algorithm.updates;
  plan.learning_starts = algorithm.learning_starts;
  plan.kept_steps = algorithm.buffer_size;
  if (roles.serves()) {
    plan.who.push_back(served_hosts(roles));
    plan.who.push_back("rank 0: actor of all environments, memory, learner");
    plan.who.push_back(served_edges(spec, roles));
  } else {
    plan.who.push_back(served_hosts(roles) + ", actor, memory, learner");
  }
  plan.who.push_back(
      on_disk
          ? fmt::format("steps (each step): files of {} bytes for the newest {}, and of those that "
                        "checkpoints need; {} bytes of memory",
                        grouped(replay.step_bytes()), grouped(replay.steps * replay.own_rows()),
                        grouped(steps_bytes))
          : fmt::format("steps (each step): the same memory, a ring of {} bytes for {}",
                        grouped(steps_bytes), grouped(replay.steps * replay.own_rows())));
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
  if (learners > 1) {
    plan.who.push_back(
        fmt::format("of each batch {} parts a learner, of {}: those that others hold come in one "
                    "exchange of {} "
                    "bytes; gradients: {} sums of {} bytes, in the order of parts",
                    parts / learners, algorithm.batch_size / parts,
                    grouped(own_batch * replay.item_numbers() * 4), parts / learners,
                    grouped(plan.model_bytes)));
  }
  return plan;
}

}  // namespace mstrain::reinforcement
