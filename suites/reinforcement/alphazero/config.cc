#include "suites/reinforcement/alphazero/config.h"

#include "core/base/error.h"
#include "suites/reinforcement/alphazero/openings.h"

namespace mstrain::alphazero {

const char* policy_of(SearchKind kind) { return kind == SearchKind::kPuct ? "puct" : "gumbel"; }

Config::Config() {
  train.run.name = "alphazero";
  train.batch.global = 128;
  train.eval.interval = {};  // matches take their place
  train.schedule.type = ScheduleType::kConstant;
}

Config read_alphazero(const YamlNode& tree) {
  Config config;
  read_config(tree, config);
  check_train_config(config.train, tree);
  if (config.train.run.mode != RunMode::kTrain) {
    config_fail(tree, "run.mode",
                "an alphazero run trains; mstrain arena and mstrain play use what it learned");
  }
  check_only_data(config.train.parallel, tree, "an alphazero run's ranks share games and batches");
  if (config.train.parallel.plan != kManualPlan) {
    config_fail(tree, "parallel.plan",
                fmt::format("{}, but an alphazero run's ranks are all along parallel.data: "
                            "expected manual",
                            config.train.parallel.plan));
  }
  if (config.train.checkpoint.best) {
    config_fail(tree, "checkpoint.best",
                "is of metrics of held-out data, which an alphazero run has none of; matches with "
                "earlier checkpoints are in its report");
  }
  if (config.evaluation.games % 2 != 0) {
    config_fail(tree, "evaluation.games",
                fmt::format("expected an even number, found {}", config.evaluation.games));
  }
  const AlgorithmConfig defaults;
  if (config.algorithm.resign.is_word()) {
    const auto is_for_resign = [&](const char* key, double value, double usual) {
      if (value != usual) {
        config_fail(tree, key, "is for games that are given up: see algorithm.resign");
      }
    };
    is_for_resign("algorithm.false_resignations", config.algorithm.false_resignations,
                  defaults.false_resignations);
    is_for_resign("algorithm.played_out", config.algorithm.played_out, defaults.played_out);
  }
  const NetworkConfig& network = config.network;
  if (network.type == NetworkConfig::Type::kTransformer && network.width % network.heads != 0) {
    config_fail(tree, "network.heads",
                fmt::format("{} do not divide network.width {}", network.heads, network.width));
  }
  const BoardGame game(config.game, config_where(tree, "game"));
  const bool is_for_two = game.start().players() == 2;
  if (!is_for_two) {
    if (find_config(tree, "evaluation") != nullptr && !config.evaluation.interval.is_word()) {
      config_fail(tree, "evaluation",
                  fmt::format("matches are of two players, and {} is of one: leave it out; "
                              "mean_result in the rows says how well it is played",
                              config.game));
    }
    config.evaluation.interval = {};
  } else if (!config.evaluation.interval.is_word()) {
    check_openings(game, config.evaluation.games, config_where(tree, "evaluation.games"));
  }
  if (!config.algorithm.resign.is_word() && !is_for_two) {
    config_fail(tree, "algorithm.resign",
                fmt::format("{} is of one player, whom nobody beats", config.game));
  }
  if (network.type != NetworkConfig::Type::kMlp && game.rows() * game.columns() == 1) {
    config_fail(tree, "network.type", fmt::format("{} has no board; expected mlp", config.game));
  }
  return config;
}

}  // namespace mstrain::alphazero
