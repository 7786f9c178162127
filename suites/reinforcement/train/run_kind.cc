#include "suites/reinforcement/train/run_kind.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/runtime/context.h"
#include "core/train/numbers.h"
#include "core/train/planned_run.h"
#include "core/train/preflight.h"
#include "suites/reinforcement/train/muzero_agent.h"
#include "suites/reinforcement/train/off_policy_agent.h"
#include "suites/reinforcement/train/on_policy_agent.h"
#include "suites/reinforcement/train/placement.h"
#include "suites/reinforcement/train/play.h"
#include "suites/reinforcement/train/session.h"
#include "suites/reinforcement/train/sweep.h"
#include "suites/reinforcement/train/td_afterstate_agent.h"
#include "suites/run/suite.h"
#include "suites/run/sweep.h"

namespace mstrain::reinforcement {
namespace {

int64_t bytes_limit(const Config& config) {
  return memory_limit(config.memory, Context{.threads = 1});
}

void refuse(const AgentPlan& plan, int64_t limit) {
  if (plan.total() > limit) {
    throw PlanError(fmt::format("the run needs {} and memory.limit_gb allows {}; {}",
                                gigabytes(plan.total()), gigabytes(limit), plan.advice));
  }
}

void find_unlearned_steps(const AgentPlan& plan, const Config& config, const YamlNode& tree,
                          Findings& findings) {
  const std::string where = config_where(tree, "algorithm.learning_starts");
  const int64_t total = config.schedule.total_env_steps;
  if (plan.learning_starts > total) {
    findings.push_back(fmt::format(
        "{}: {} steps are more than schedule.total_env_steps {}: the run learns nothing", where,
        plan.learning_starts, total));
  } else if (plan.learning_starts > plan.kept_steps && plan.kept_steps > 0) {
    findings.push_back(fmt::format(
        "{}: of {} steps algorithm.buffer_size keeps {}: the others are never learned from", where,
        plan.learning_starts, plan.kept_steps));
  }
}

[[noreturn]] void refuse_many_ranks(const YamlNode& sweep) {
  config_fail(sweep, "sweep",
              "its runs are of one process each: leave --ranks out; distribution.actors gives each "
              "of them several threads");
}

// One run, to its end or to `until`; how it ended is told where `tells`.
Outcome run_one(const RunRequest& request, std::optional<int64_t> until, bool tells) {
  const Config config = read_reinforcement(request.tree);
  const AgentEntry& entry = agent_of(config.algorithm->type);
  std::unique_ptr<Communicator> world =
      request.world ? request.world(config.distribution.timeout_s) : nullptr;
  const bool first = world == nullptr || world->rank() == 0;
  const int64_t ranks = world != nullptr ? world->size() : threads_of(config);
  check_placement(config, request.tree, ranks);
  check_env_schedule(config.schedule, request.tree);
  const AgentPlan plan = entry.plan(config, request.tree, ranks);
  refuse(plan, bytes_limit(config));
  if (first) {
    Findings findings;
    find_unlearned_steps(plan, config, request.tree, findings);
    warn_of(findings);
  }
  const Finished done = train_placed(request, config, std::move(world), until);
  if (!first || !tells) {
    return done.outcome;
  }
  const std::string directory = config.run.directory();
  switch (done.outcome) {
    case Outcome::kWasFinished:
      fmt::print(
          request.out, "{}: finished at step {}; {} to go on, or begin anew with --restart\n",
          directory, done.env_steps,
          done.stopped_at_return ? "raise eval.stop_at_return" : "raise schedule.total_env_steps");
      break;
    case Outcome::kInterrupted:
      fmt::print(request.out, "{}: interrupted, saved at step {}; the same command goes on\n",
                 directory, done.env_steps);
      break;
    case Outcome::kFinished:
      fmt::print(request.out, "{}: finished at step {}{}{}\n", directory, done.env_steps,
                 done.eval_return ? fmt::format(", eval_return {:.2f}", *done.eval_return) : "",
                 done.stopped_at_return ? " (eval.stop_at_return is reached)" : "");
      fmt::print(request.out, "open {} in a browser; see it act: mstrain play --checkpoint {}\n",
                 join_path(directory, kReportFile), directory);
      break;
  }
  return done.outcome;
}

Outcome run_agent(const RunRequest& request) {
  if (!is_sweep(request.tree)) {
    return run_one(request, {}, /*tells=*/true);
  }
  if (request.world) {
    refuse_many_ranks(request.tree);
  }
  return sweep_agents(
      request, [&](const YamlNode& tree, int64_t until, const std::function<void()>& cleared) {
        SessionStart start = request.start;
        start.restart = cleared != nullptr;
        start.cleared = cleared;
        return run_one({request.files, tree, request.stop, request.out, std::move(start)}, until,
                       /*tells=*/false);
      });
}

void dry_run_agent(const RunRequest& given, const DryRun& options) {
  const RunRequest request{
      given.files, is_sweep(given.tree) ? first_of_agents_sweep(given) : given.tree,
      given.stop,  given.out,
      given.start, given.world};
  const Config config = read_reinforcement(request.tree);
  const int64_t ranks = threads_of(config);
  check_placement(config, request.tree, ranks);
  check_env_schedule(config.schedule, request.tree);
  const AgentPlan plan = agent_of(config.algorithm->type).plan(config, request.tree, ranks);
  std::string text = fmt::format("{} in {}: {} parameters, {} environments\n",
                                 config.algorithm->type, config.environment.env.called(),
                                 grouped(plan.parameters), config.environment.num_envs);
  text += fmt::format("an iteration: {} steps of environments, {} updates\n",
                      grouped(plan.env_steps), grouped(plan.updates));
  for (const std::string& line : plan.who) {
    text += "  " + line + "\n";
  }
  text +=
      fmt::format("memory of a rank: parameters {}, optimizer {}, {} {}, programs {}: {} bytes\n",
                  grouped(plan.model_bytes), grouped(plan.optimizer_bytes), "trajectories",
                  grouped(plan.data_bytes), grouped(plan.program_bytes), grouped(plan.total()));
  fmt::print(request.out, "{}", text);
  std::fflush(request.out);
  if (options.plan_file) {
    write_file_atomic(request.files, *options.plan_file, text);
  }
  TrainConfig written;
  written.run = config.run;
  Findings findings;
  find_unwritable_output(request.files, written, request.tree, findings);
  find_unlearned_steps(plan, config, request.tree, findings);
  find_full_disk(request.files, config.run.directory(), plan.disk_bytes,
                 config_where(request.tree, "run.output_dir"), "the memory of the run", findings);
  warn_of(findings);
  refuse(plan, bytes_limit(config));
  fmt::print(request.out, "fits\n");
}

YamlNode resolved_agent(FileSystem&, const YamlNode& tree) {
  return write_config(read_reinforcement(tree));
}

std::vector<ConfigKeyDoc> keys_of_agent(const YamlNode& tree) {
  return document_config(usual_config(tree));
}

void check_agent_ranks(FileSystem&, const YamlNode& tree, int64_t ranks) {
  if (is_sweep(tree)) {
    refuse_many_ranks(tree);
  }
  const Config config = read_reinforcement(tree);
  check_placement(config, tree, ranks);
  agent_of(config.algorithm->type).plan(config, tree, ranks);
}

}  // namespace

void add_reinforcement() {
  for (const AgentEntry& entry : on_policy_agents()) {
    add_agent(entry);
  }
  for (const AgentEntry& entry : muzero_agents()) {
    add_agent(entry);
  }
  for (const AgentEntry& entry : off_policy_agents()) {
    add_agent(entry);
  }
  for (const AgentEntry& entry : td_afterstate_agents()) {
    add_agent(entry);
  }
  for (const AgentEntry& entry : agents()) {
    add_run_kind({"algorithm", entry.type, run_agent, dry_run_agent, resolved_agent,
                  check_agent_ranks, keys_of_agent});
  }
  add_play();
}

}  // namespace mstrain::reinforcement
