// A run that is killed says what it played as one that was not.
#include <gtest/gtest.h>

#include <csignal>

#include "core/train/metrics_file.h"
#include "tests/core/train/memory_disk.h"
#include "tests/launcher/save_watch.h"

namespace mstrain::alphazero {
namespace {

std::vector<std::string> run_with_few_rows(const std::string& directory, int64_t steps) {
  return {"--config",
          shipped("alphazero_tic_tac_toe.yaml"),
          "run.output_dir=" + directory,
          "run.threads=1",
          fmt::format("schedule.total_steps={}", steps),
          "schedule.type=constant",
          "schedule.min_lr_ratio=0",
          "algorithm={type: alphazero, games: 8, simulations: 8, steps: 10}",
          "network={type: mlp, blocks: 1}",
          "batch.global=32",
          "evaluation={interval: 2, games: 2, simulations: 4, uct: 4}",
          "checkpoint.interval=20",
          "log.interval=100000"};
}

// Between a checkpoint, whose weights and matches nobody plays again, and the row that would have told of them.
TEST(AlphaZeroKill, LosesNoRowOfWhatWasPlayed) {
  const TemporaryFolder folder;
  const std::string killed = folder / "killed", whole = folder / "whole";
  const SaveWatch watch(killed);
  RunningCommand command(run_with_few_rows(killed, 100000));
  watch.await_checkpoints(command, 1);
  command.signal(SIGKILL);
  ASSERT_EQ(command.wait().status, 128 + SIGKILL);
  const int64_t end = checkpoints_of(killed).back() + 5;
  for (const std::string& each : {killed, whole}) {
    const CommandResult done = run_command(run_with_few_rows(each, end));
    ASSERT_EQ(done.status, 0) << done.err;
  }
  const auto last_training_row = [&](const std::string& directory) {
    Json found;
    for (const Json& row : read_metrics(real_files(), join_path(directory, kMetricsFile))) {
      found = row["step"] == end && row.contains("loss") ? row : found;
    }
    return found;
  };
  const Json gone_on = last_training_row(killed), straight = last_training_row(whole);
  for (const char* key :
       {"loss", "iteration", "game_length", "first_player_wins", "draws", "policy_entropy",
        "replay_positions", "replay_age", "match_score", "match_elo", "elo"}) {
    ASSERT_TRUE(straight.contains(key)) << key;
    EXPECT_EQ(gone_on.value(key, Json()), straight[key]) << key;
  }
}

}  // namespace
}  // namespace mstrain::alphazero
