#include "suites/reinforcement/alphazero/alphazero_run.h"

#include "core/base/error.h"
#include "core/base/files_silent.h"
#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/train/preflight.h"
#include "core/train/previous_run.h"
#include "core/train/rank_talk.h"
#include "core/train/run_device.h"
#include "core/train/session.h"
#include "suites/reinforcement/alphazero/commands.h"
#include "suites/reinforcement/alphazero/self_play.h"
#include "suites/run/rank_log.h"
#include "suites/run/suite.h"

namespace mstrain::alphazero {
namespace {

YamlNode resolved_alphazero(FileSystem&, const YamlNode& tree) {
  return write_config(read_alphazero(tree));
}

void check_alphazero_ranks(FileSystem&, const YamlNode& tree, int64_t ranks) {
  const TrainConfig config = read_alphazero(tree).train;
  check_runs(config.parallel, tree, ranks);
  check_batch(config, mesh_of(config.parallel, ranks, tree).size(kDataAxis), tree);
}

void refuse_alphazero(const RunPlan& plan, int64_t limit) {
  if (plan.total() > limit) {
    throw PlanError(refusal(plan, limit, {}));
  }
}

Outcome play_and_train(const RunRequest& request) {
  const Config config = read_alphazero(request.tree);
  Ranks* const ranks = request.start.ranks.get();
  SilentFiles silent(request.files);
  FileSystem& files = is_first(ranks) ? request.files : silent;
  const BoardGame game(config.game, config_where(request.tree, "game"));
  const std::string directory = config.train.run.directory();
  const auto replay = std::make_shared<Replay>(files, join_path(directory, "replay"), game,
                                               config.algorithm.window);
  TrainData data;
  data.identity = "alphazero " + config.game;
  data.checkpoint_files = {{kAgentFile, to_yaml(write_config(AgentConfig(config)))}};
  data.outside = replay;
  data.training = [&, replay](uint64_t seed, const BatchPart& part, int64_t first) {
    return draw_from(*replay, game, seed,
                     {.part = part,
                      .symmetries = config.algorithm.symmetries,
                      .search_value = static_cast<float>(config.algorithm.search_value),
                      .discount = config.algorithm.discount},
                     first);
  };
  SelfPlay self_play(config, game, *replay, files, directory, request.stop, ranks);
  const SessionResult result =
      train(request.files, config.train, write_config(config),
            task_of(PolicyValueNetwork(config.network, game), config.algorithm.value_weight), data,
            refuse_alphazero, request.stop, {&self_play}, request.start);
  switch (result.outcome) {
    case Outcome::kWasFinished:
      fmt::print(request.out,
                 "{}: finished at step {}; raise schedule.total_steps to go on, or begin anew with "
                 "--restart\n",
                 directory, result.step);
      break;
    case Outcome::kInterrupted:
      fmt::print(request.out, "{}: interrupted at step {}; the same command goes on\n", directory,
                 result.step);
      break;
    case Outcome::kFinished:
      fmt::print(request.out,
                 "{}: finished at step {}\nplay against it: mstrain play --checkpoint {}\n",
                 directory, result.step, directory);
      break;
  }
  return result.outcome;
}

Outcome run_alphazero(const RunRequest& given) {
  RunRequest request{given.files, given.tree, given.stop, given.out, given.start};
  const TrainConfig config = read_alphazero(request.tree).train;
  check_run_device(config.run, request.tree);
  if (!given.world) {
    return play_and_train(request);
  }
  std::unique_ptr<Communicator> world =
      with_devices(config.run, given.world(config.parallel.timeout_s), config.parallel.timeout_s);
  check_alphazero_ranks(request.files, request.tree, world->size());
  const RankLog log(request, config.run, world->rank());
  request.start.ranks = make_ranks(config.parallel, std::move(world));
  return play_and_train(request);
}

void dry_run_alphazero(const RunRequest& request, const DryRun& options) {
  const Config config = read_alphazero(request.tree);
  check_alphazero_ranks(request.files, request.tree, planned_ranks(config.train.parallel));
  const BoardGame game(config.game, config_where(request.tree, "game"));
  const PolicyValueNetwork network(config.network, game);
  const Context context{.backend = planned_backend(request.files, config.train.run, request.tree),
                        .threads = static_cast<int>(config.train.run.threads.value_or(0))};
  const ContextScope scope(context);
  const int64_t limit = memory_limit(config.train.memory, context);
  const PlannedRun planned = plan_run(task_of(network, config.algorithm.value_weight), config.train,
                                      context, limit, /*evaluates=*/false);
  const AlgorithmConfig& algorithm = config.algorithm;
  fmt::print(request.out, "{}", describe(planned.plan, config.train, limit));
  fmt::print(request.out,
             "{}: [{}, {}, {}] numbers a position, {} actions\n"
             "{} iterations: {} games, {} at once, {} simulations a move by {}; then {} steps\n",
             config.game, game.planes(), game.rows(), game.columns(), game.actions(),
             (config.train.schedule.total_steps + algorithm.steps - 1) / algorithm.steps,
             algorithm.games, std::min(algorithm.games, algorithm.parallel_games),
             algorithm.simulations, policy_of(algorithm.search), algorithm.steps);
  std::fflush(request.out);
  if (options.plan_file) {
    write_file_atomic(request.files, *options.plan_file, plan_text(planned));
  }
  Findings findings;
  find_unwritable_output(request.files, config.train, request.tree, findings);
  if (!options.offline) {
    find_previous_in_the_way(request.files, config.train, write_config(config), request.start,
                             findings);
  }
  warn_of(findings);
  refuse_alphazero(planned.plan, limit);
  fmt::print(request.out, "fits\n");
}

}  // namespace

TrainTask task_of(const PolicyValueNetwork& network, double value_weight) {
  TrainTask task;
  task.units.name = "position";
  task.parameters = network.specs();
  for (const ParamSpec& spec : task.parameters) {
    task.stored_shapes.push_back(spec.type.shape);
  }
  task.batch_types = [network](int64_t rows) {
    const Shape& input = network.input();
    return Types{{Dtype::kF32, {rows, input[0], input[1], input[2]}},
                 {Dtype::kF32, {rows, network.actions()}},
                 {Dtype::kF32, {rows}}};
  };
  task.sums = [network, value_weight](const Params& params, std::span<const Tensor> batch) {
    const auto [logits_ba, value_b] = network(params, batch[0]);
    const Tensor loss_b =
        soft_cross_entropy_rows(logits_ba, batch[1]) + value_weight * square(value_b - batch[2]);
    const int64_t rows = batch[0].dim(0);
    return TaskSums{{sum(loss_b), filled({Dtype::kI32, {}}, static_cast<double>(rows))}};
  };
  return task;
}

void add_alphazero() {
  add_run_kind({"algorithm", "alphazero", run_alphazero, dry_run_alphazero, resolved_alphazero,
                check_alphazero_ranks, [](const YamlNode&) { return document_config(Config()); }});
  add_alphazero_commands();
}

}  // namespace mstrain::alphazero
