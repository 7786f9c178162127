// Whole runs: they learn, and go on bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics_file.h"
#include "core/train/report_data.h"
#include "suites/all.h"
#include "suites/reinforcement/alphazero/agent.h"
#include "suites/reinforcement/alphazero/contestant.h"
#include "suites/reinforcement/alphazero/self_play.h"
#include "suites/run/run.h"
#include "suites/run/suite.h"
#include "tests/amount.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"
#include "tests/ranks.h"
#include "tests/suites/reinforcement/alphazero/small.h"

namespace mstrain::alphazero {
namespace {

void know_all() {
  static const bool kDone = [] {
    add_all_models();
    return true;
  }();
  (void)kDone;
}

Outcome run_file(const std::string& file, const std::vector<std::string>& overrides,
                 const std::atomic<bool>& stop = kGoOn, std::shared_ptr<Ranks> ranks = nullptr) {
  know_all();
  std::FILE* const out = std::fopen("/dev/null", "w");
  RunRequest request{real_files(), load_config(file, overrides), stop, out, {}};
  request.start.ranks = std::move(ranks);
  const Outcome outcome = run(request);
  std::fclose(out);
  return outcome;
}

const std::string kTicTacToe =
    std::string(MSTRAIN_SOURCE_DIR) + "/configs/alphazero_tic_tac_toe.yaml";

std::vector<std::string> small_run(const std::string& folder, int64_t steps) {
  return {"run.output_dir=" + folder,
          "run.threads=1",
          fmt::format("schedule.total_steps={}", steps),
          "schedule.type=constant",
          "schedule.min_lr_ratio=0",
          "algorithm.games=16",
          "algorithm.simulations=12",
          "algorithm.steps=10",
          "network.type=mlp",
          "network.blocks=1",
          "batch.global=32",
          "evaluation={interval: 2, games: 4, simulations: 8, uct: 8}"};
}

std::string state_of(const std::string& folder, int64_t step) {
  const std::string checkpoint = folder + "/checkpoints/" + checkpoint_name(step);
  return real_files().read(checkpoint + "/model.safetensors") +
         real_files().read(checkpoint + "/optimizer.safetensors") +
         real_files().read(folder + fmt::format("/replay/step-{:08}.safetensors", step));
}

TEST(AlphaZeroRun, GoesOnBitForBit) {
  for (const std::string resign : {"none", "-0.2"}) {
    const TemporaryFolder folder;
    const std::string whole = folder / "whole";
    const std::string parts = folder / "parts";
    const auto run_to = [&](const std::string& place, int64_t steps) {
      std::vector<std::string> changes = small_run(place, steps);
      changes.push_back("algorithm.resign=" + resign);
      EXPECT_EQ(run_file(kTicTacToe, changes), Outcome::kFinished);
    };
    run_to(whole, 45);
    for (const int64_t steps : {7, 20, 33, 45}) {  // amid an iteration, and between two
      run_to(parts, steps);
    }
    EXPECT_EQ(state_of(whole, 45), state_of(parts, 45)) << resign;
  }
}

TEST(AlphaZeroRun, LearnsAndPlaysInTypesOf16Bits) {
  for (const std::string network : {"residual", "mlp", "transformer"}) {
    const TemporaryFolder folder;
    std::vector<std::string> changes = small_run(folder.path(), 25);
    changes.insert(changes.end(), {"precision={params: bf16, moments: int8}",
                                   "network.type=" + network, "network.width=16"});
    EXPECT_EQ(run_file(kTicTacToe, changes), Outcome::kFinished) << network;
    const std::vector<Json> rows = read_metrics(real_files(), folder / "metrics.jsonl");
    EXPECT_TRUE(std::isfinite(rows.back().value("match_score", NAN))) << network;
    const std::unique_ptr<Agent> agent = load_agent(real_files(), folder.path(), 1);
    const std::vector<AnyGame> start{agent->game().start()};
    const std::vector<uint64_t> seeds{1};
    const auto player = network_contestant("it", agent->config(), agent->evaluator(), 8);
    EXPECT_EQ(player->choose(start, seeds).size(), 1U) << network;
  }
}

// What ranks share must not show: neither in what is learned, nor in what is said of it.
TEST(AlphaZeroRun, IsTheSameOnAnyRanks) {
  const auto run_to = [](const std::string& place, int64_t ranks, int64_t steps) {
    std::vector<std::string> changes = small_run(place, steps);
    changes.insert(changes.end(), {"batch.micro=8", "algorithm.threads=1", "algorithm.resign=-0.2",
                                   "algorithm.games=7", "log.interval=5"});
    if (ranks == 1) {
      EXPECT_EQ(run_file(kTicTacToe, changes), Outcome::kFinished);
      return;
    }
    run_ranks({{{std::string(kDataAxis), ranks}}}, [&](std::shared_ptr<Ranks> shared) {
      EXPECT_EQ(run_file(kTicTacToe, changes, kGoOn, std::move(shared)), Outcome::kFinished);
    });
  };
  const auto said = [](const std::string& place) {
    std::vector<double> out;
    for (const Json& row : read_metrics(real_files(), place + "/metrics.jsonl")) {
      for (const char* key : {"loss", "game_length", "first_player_wins", "resigned", "match_score",
                              "elo", "policy_entropy"}) {
        out.push_back(row.value(key, -2.0));
      }
    }
    return out;
  };
  const TemporaryFolder folder;
  run_to(folder / "alone", 1, 25);
  EXPECT_GT(std::ranges::count_if(said(folder / "alone"), [](double x) { return x != -2; }), 20);
  for (const int64_t ranks : {2, 4}) {
    const std::string shared = folder / std::to_string(ranks);
    run_to(shared, ranks, 25);
    EXPECT_EQ(state_of(folder / "alone", 25), state_of(shared, 25)) << ranks;
    EXPECT_EQ(said(folder / "alone"), said(shared)) << ranks;
  }
  run_to(folder / "changing", 2, 7);  // amid an iteration
  run_to(folder / "changing", 1, 14);
  run_to(folder / "changing", 4, 25);
  EXPECT_EQ(state_of(folder / "alone", 25), state_of(folder / "changing", 25));
}

// Whoever of them is told.
TEST(AlphaZeroRun, EndsOnAllRanksWhereOneIsStopped) {
  const TemporaryFolder folder;
  std::vector<std::string> changes = small_run(folder.path(), 30);
  changes.insert(changes.end(),
                 {"batch.micro=8", "algorithm.games=64", "evaluation.interval=none"});
  const std::atomic<bool> stopped = true;
  run_ranks({{{std::string(kDataAxis), 2}}}, [&](std::shared_ptr<Ranks> ranks) {
    const std::atomic<bool>& stop = ranks->rank() == 1 ? stopped : kGoOn;
    EXPECT_EQ(run_file(kTicTacToe, changes, stop, ranks), Outcome::kInterrupted);
  });
  changes.push_back("schedule.total_steps=15");
  run_ranks({{{std::string(kDataAxis), 2}}}, [&](std::shared_ptr<Ranks> ranks) {
    EXPECT_EQ(run_file(kTicTacToe, changes, kGoOn, std::move(ranks)), Outcome::kFinished);
  });
}

TEST(AlphaZeroRun, ItTakesLessHopeToGiveUpWhereThatWasWrong) {
  AlgorithmConfig config;
  EXPECT_EQ(Resignation(config).below(), std::nullopt);
  config.resign = -0.8;
  Resignation resignation(config);
  EXPECT_EQ(resignation.below(), -0.8);
  resignation.learn({.given_up = 9, .checked = 0, .wrong = 0});
  EXPECT_EQ(resignation.below(), -0.8);
  resignation.learn({.given_up = 9, .checked = 10, .wrong = 1});
  EXPECT_NEAR(*resignation.below(), -0.85, 1e-12);
  resignation.learn({.given_up = 9, .checked = 10, .wrong = 5});
  EXPECT_NEAR(*resignation.below(), -0.8875, 1e-12);
  for (int i = 0; i < 4; ++i) {
    resignation.learn({.given_up = 9, .checked = 100, .wrong = 5});
  }
  EXPECT_NEAR(*resignation.below(), -0.8075, 1e-12);
  resignation.learn({.given_up = 9, .checked = 100, .wrong = 0});
  EXPECT_EQ(resignation.below(), -0.8);  // never more than asked for
  resignation.restore(-0.9);
  EXPECT_EQ(resignation.below(), -0.9);
}

TEST(AlphaZeroRun, SaysHowOftenItGaveUp) {
  const TemporaryFolder folder;
  std::vector<std::string> changes = small_run(folder.path(), 20);
  changes.insert(changes.end(), {"game=connect_four", "algorithm.resign=-0.05",
                                 "algorithm.played_out=0.5", "evaluation.interval=none"});
  run_file(kTicTacToe, changes);
  double resigned = 0, checked = 0;
  for (const Json& row : read_metrics(real_files(), folder / "metrics.jsonl")) {
    resigned += row.value("resigned", 0.0);
    checked += row.value("resign_checked", 0.0);
    if (row.contains("resign_checked")) {
      EXPECT_LE(row["resign_wrong"], row["resign_checked"]);
      EXPECT_LE(row["resign_below"], -0.05);
    }
  }
  EXPECT_GT(resigned, 0);
  EXPECT_GT(checked, 0);
}

TEST(AlphaZeroRun, SaysInItsRowsWhatItPlayed) {
  const TemporaryFolder folder;
  run_file(kTicTacToe, small_run(folder.path(), 20));
  std::map<std::string, int> seen;
  for (const Json& row : read_metrics(real_files(), folder / "metrics.jsonl")) {
    for (const auto& [key, value] : row.items()) {
      ++seen[key];
    }
  }
  for (const char* key : {"loss", "iteration", "game_length", "replay_age", "policy_entropy",
                          "evaluator_busy", "match_score", "elo"}) {
    EXPECT_GT(seen[key], 0) << key;
  }
  const OrderedJson report = run_data(real_files(), folder.path());
  EXPECT_EQ(report["matches"]["step"].size(), static_cast<size_t>(seen["match_score"]));
  EXPECT_NE(real_files().read(folder / "report.html").find(report["matches"].dump()),
            std::string::npos);
  for (const char* key : {"match_score", "elo"}) {
    EXPECT_TRUE(report["matches"][key].back().is_number()) << key;
  }
  for (const char* key : {"game_length", "replay_age", "policy_entropy", "evaluator_busy"}) {
    const OrderedJson& column = report["train"][key];
    EXPECT_TRUE(std::ranges::any_of(column, [](const auto& each) { return each.is_number(); }))
        << key;
  }
  ASSERT_EQ(report["evaluations"].size(), 1U);
  EXPECT_EQ(report["evaluations"][0]["step"], 20);
  for (const char* self : {"step-00000000", "step-00000020"}) {
    EXPECT_EQ(load_agent(real_files(), folder / "selves/" + self, 1)->game().name(), "tic_tac_toe");
  }
}

TEST(AlphaZeroRun, SaysWhatGamesOfOnePlayerReach) {
  const TemporaryFolder folder;
  std::vector<std::string> changes = small_run(folder.path(), 10);
  changes.back() = "evaluation.interval=none";
  changes.insert(changes.end(), {"game=peg_solitaire", "algorithm.games=4"});
  EXPECT_EQ(run_file(kTicTacToe, changes), Outcome::kFinished);
  const std::vector<Json> rows = read_metrics(real_files(), folder / "metrics.jsonl");
  ASSERT_TRUE(rows.front().contains("mean_result"));
  EXPECT_GT(rows.front()["mean_result"], 0);  // of 32 pegs some go, whoever plays
  EXPECT_LT(rows.front()["mean_result"], 1);
  for (const char* key : {"first_player_wins", "draws", "match_score"}) {
    EXPECT_FALSE(rows.front().contains(key)) << key;
  }
}

TEST(AlphaZeroRun, AMatchAtTheEndThatIsCutShortIsMadeUpFor) {
  const TemporaryFolder folder;
  std::vector<std::string> changes = small_run(folder.path(), 10);
  changes.emplace_back("evaluation.interval=none");
  EXPECT_EQ(run_file(kTicTacToe, changes), Outcome::kFinished);
  changes.back() = "evaluation.interval=1";
  const auto status = [&] {
    return Json::parse(real_files().read(folder / "run.json"))["status"].get<std::string>();
  };
  const auto matches = [&] {
    return std::ranges::count_if(read_metrics(real_files(), folder / "metrics.jsonl"),
                                 [](const Json& row) { return row.contains("match_score"); });
  };
  const std::atomic<bool> stop = true;
  EXPECT_EQ(run_file(kTicTacToe, changes, stop), Outcome::kInterrupted);
  EXPECT_EQ(status(), "interrupted");
  EXPECT_EQ(matches(), 0);
  EXPECT_EQ(run_file(kTicTacToe, changes), Outcome::kFinished);
  EXPECT_EQ(status(), "finished");
  EXPECT_EQ(matches(), 1);
  EXPECT_EQ(run_file(kTicTacToe, changes), Outcome::kWasFinished);
}

TEST(AlphaZeroRun, LearnsToBeatRandomPlay) {
  const TemporaryFolder folder;
  run_file(kTicTacToe,
           {"run.output_dir=" + folder.path(), "run.threads=1", "schedule.total_steps=200",
            "algorithm.games=64", "algorithm.simulations=24", "network.width=16",
            "evaluation.interval=none"});
  const auto agent = load_agent(real_files(), folder.path(), 2);
  const BoardGame& game = agent->game();
  RandomContestant random;
  const auto score_of = [&](mcts::AnyEvaluator<AnyGame>& evaluator) {
    const auto player = network_contestant("player", agent->config(), evaluator, 8);
    return play_match(game, *player, random, 100, 1, kGoOn).score();
  };
  NetworkEvaluator fresh(game, PolicyValueNetwork(agent->config().network, game), 2);
  fresh.set_params(init_params(PolicyValueNetwork(agent->config().network, game).specs(), 1));
  mcts::AnyEvaluator<AnyGame> untrained(fresh);
  const double before = score_of(untrained);
  const double after = score_of(agent->evaluator());
  // Some openings are lost for one side, which random play seldom lets slip.
  EXPECT_GT(after, 0.75);
  EXPECT_GT(after, before + 0.08);
}

// The whole game tree of the other player, in both colours.
TEST(AlphaZeroRun, NeverLosesTicTacToeAfterTheShippedConfiguration) {
  if (!long_tests()) {
    GTEST_SKIP() << "20 s of training; MSTRAIN_LONG_TESTS=1 runs it";
  }
  const TemporaryFolder folder;
  EXPECT_EQ(run_file(kTicTacToe, {"run.output_dir=" + folder.path()}), Outcome::kFinished);
  const auto agent = load_agent(real_files(), folder.path(), 2);
  const auto learned = network_contestant("learned", agent->config(), agent->evaluator(), 50);
  for (const int player : {0, 1}) {
    EXPECT_EQ(lost_lines(agent->game(), *learned, player, agent->game().start()), 0)
        << "as player " << player + 1;
  }
}

// What a command prints, of those that suites add.
std::string printed(const std::string& name, const std::vector<std::string>& arguments) {
  know_all();
  for (const Command& command : added_commands()) {
    if (command.usage.name == name) {
      testing::internal::CaptureStdout();
      try {
        command.run(command.usage, arguments, kGoOn);
      } catch (...) {
        testing::internal::GetCapturedStdout();
        throw;
      }
      std::fflush(stdout);
      return testing::internal::GetCapturedStdout();
    }
  }
  fail("there is no command {}", name);
}

std::string complaint(const std::string& name, const std::vector<std::string>& arguments) {
  try {
    printed(name, arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(AlphaZeroCommands, PlayAndArenaUseWhatARunLearned) {
  const TemporaryFolder folder;
  run_file(kTicTacToe, small_run(folder.path(), 10));
  const std::string run_folder = folder.path();
  // x has two in the first row, and finishes it.
  const Json answer = Json::parse(
      printed("play", {"--checkpoint", run_folder, "--position", "1425", "--sims=200", "--json"}));
  EXPECT_EQ(answer["best_action"], "3");
  EXPECT_GT(answer["value"].get<double>(), 0.5);
  double shares = 0;
  for (const Json& share : answer["policy"]) {
    shares += share.get<double>();
  }
  EXPECT_EQ(answer["policy"].size(), 5);
  EXPECT_NEAR(shares, 1, 1e-6);

  const std::string illegal = complaint("play", {"--checkpoint", run_folder, "--position", "11"});
  EXPECT_THAT(illegal, testing::HasSubstr("\"1\" is no legal action"));
  EXPECT_THAT(illegal, testing::HasSubstr("2 3 4 5 6 7 8 9"));
  EXPECT_THAT(complaint("play", {"--checkpoint", run_folder, "--json"}),
              testing::HasSubstr("--position"));
  EXPECT_THAT(complaint("play", {"--sims", "3"}), testing::HasSubstr("--checkpoint DIR"));

  const std::vector<std::string> match{"--game", "tic_tac_toe", "--a",     run_folder,
                                       "--b",    "uct:20",      "--games", "20",
                                       "--sims", "8",           "--json"};
  const Json result = Json::parse(printed("arena", match));
  EXPECT_EQ(result, Json::parse(printed("arena", match)));
  EXPECT_EQ(result["wins"].get<int>() + result["draws"].get<int>() + result["losses"].get<int>(),
            20);
  for (const char* how : {"puct", "gumbel"}) {
    std::vector<std::string> searched = match;
    searched.insert(searched.end(), {"--search", how});
    EXPECT_EQ(Json::parse(printed("arena", searched))["games"], 20) << how;
  }
  EXPECT_THAT(complaint("arena", {"--search", "uct"}), testing::HasSubstr("puct or gumbel"));
  // What is proven is told as it is.
  EXPECT_EQ(Json::parse(printed("play", {"--checkpoint", run_folder, "--position", "1425",
                                         "--search", "puct", "--sims", "50", "--json"}))["value"],
            1);
  const auto with = [&](size_t place, const std::string& value) {
    std::vector<std::string> changed = match;
    changed[place] = value;
    return complaint("arena", changed);
  };
  EXPECT_THAT(with(1, "tictactoe"), testing::HasSubstr("did you mean tic_tac_toe"));
  EXPECT_THAT(with(3, "utc:50"), testing::HasSubstr("--a: no run or checkpoint is at utc:50; "));
  EXPECT_THAT(with(1, "connect_four"), testing::HasSubstr("plays tic_tac_toe"));
  EXPECT_THAT(with(5, "uct:many"), testing::HasSubstr("--b"));
  EXPECT_THAT(with(5, "uct"), testing::HasSubstr("as uct:1000"));
  EXPECT_THAT(with(7, "20000"), testing::HasSubstr("different positions"));
  const TemporaryFolder empty;
  for (const auto& [name, arguments] :
       {std::pair("play", std::vector<std::string>{"--checkpoint", empty.path()}),
        std::pair("arena", std::vector<std::string>{"--game", "tic_tac_toe", "--a", empty.path(),
                                                    "--b", "uct:20"})}) {
    try {
      printed(name, arguments);
      ADD_FAILURE() << name << " found a checkpoint in an empty folder";
    } catch (const IoError& error) {
      EXPECT_EQ(error.error_number(), ENOENT) << name;  // exit status 2
    }
  }
  EXPECT_THAT(with(7, "21"), testing::HasSubstr("even"));
}

TEST(AlphaZeroRun, BadConfigurationsNameTheKey) {
  know_all();
  const TemporaryFolder folder;
  for (const auto& [change, message] :
       {std::pair("game=connect_for", "did you mean connect_four"),
        std::pair("game=kuhn_poker", "hides cards"),
        std::pair("evaluation.games=7", "evaluation.games"),
        std::pair("evaluation.games=4000", "evaluation.games: 4000 games are of 2000 openings"),
        std::pair("game=peg_solitaire", "matches are of two players"),
        std::pair("checkpoint.best=eval_loss", "checkpoint.best"),
        std::pair("algorithm.simulation=3", "did you mean algorithm.simulations"),
        std::pair("run.mode=generate", "run.mode"),
        std::pair("algorithm.played_out=0.5", "see algorithm.resign"),
        std::pair("algorithm.resign=-2", "algorithm.resign"),
        std::pair("algorithm.type=alpha_zero", "did you mean alphazero")}) {
    try {
      run_file(kTicTacToe, {"run.output_dir=" + folder.path(), change});
      ADD_FAILURE() << change << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message)) << change;
    }
  }
}

}  // namespace
}  // namespace mstrain::alphazero
