// mcts_play from outside: its answers, its JSON, and what it says to those who mistype.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "mcts/random.h"

namespace mstrain::mcts {
namespace {

struct Ran {
  int status = -1;
  std::string out;
  std::string errors;
};

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) {
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out + "'";
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

class PlayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("mcts_play_test." + std::to_string(::getpid()) + "." +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Ran run(const std::vector<std::string>& arguments, const std::string& input = "") {
    std::ofstream(folder_ / "in") << input;
    std::string command = quoted(MCTS_PLAY);
    for (const std::string& each : arguments) {
      command += " " + quoted(each);
    }
    for (const auto& [sign, name] : {std::pair{" <", "in"}, {" >", "out"}, {" 2>", "errors"}}) {
      command += sign + quoted((folder_ / name).string());
    }
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(folder_ / "out"),
            contents(folder_ / "errors")};
  }
  Json analysed(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--seed", "1", "--json"});
    const Ran ran = run(all);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return parse_json(ran.out, "mcts_play");
  }
  void expect_refused(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& words) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.out, "");
    for (const std::string& word : words) {
      EXPECT_NE(ran.errors.find(word), std::string::npos)
          << '"' << word << "\" not in: " << ran.errors;
    }
  }

  std::filesystem::path folder_;
};

const std::vector<std::string> kGames = {
    "tic_tac_toe", "connect_four", "othello",    "othello_6x6", "othello_4x4",   "gomoku",
    "gomoku_7x7",  "go",           "go_7x7",     "go_5x5",      "hex",           "hex_7x7",
    "hex_5x5",     "2048",         "kuhn_poker", "leduc_poker", "peg_solitaire", "racetrack"};

TEST_F(PlayTest, AnalysesAPositionOfConnectFour) {
  const Json found = analysed({"--game", "connect_four", "--analyze", "4453", "--sims", "5000"});
  EXPECT_EQ(found["root"].size(), 7U);
  int64_t visits = 0;
  double priors = 0;
  for (const Json& row : found["root"]) {
    visits += row["visits"].get<int64_t>();
    priors += row["prior"].get<double>();
    EXPECT_LE(std::abs(row["value"].get<double>()), 1);
    EXPECT_EQ(row["action"].get<std::string>().size(), 1U);
  }
  EXPECT_NEAR(static_cast<double>(visits), 5000, 2);  // the first simulations visit the root alone
  EXPECT_NEAR(priors, 1, 1e-4);
  EXPECT_EQ(found["best_action"], found["root"][0]["action"]);
  EXPECT_LE(std::abs(found["value"].get<double>()), 1);
}

TEST_F(PlayTest, FindsTheWinningColumnAndBlocksTheOther) {
  EXPECT_EQ(
      analysed({"--game", "connect_four", "--analyze", "414243", "--sims", "2000"})["best_action"],
      "4");
  EXPECT_EQ(
      analysed({"--game", "connect_four", "--analyze", "41424", "--sims", "2000"})["best_action"],
      "4");
}

TEST_F(PlayTest, TheSameSeedGivesTheSameAnswer) {
  const std::vector<std::string> arguments = {"--game", "connect_four", "--analyze",
                                              "44",     "--sims",       "3000"};
  EXPECT_EQ(analysed(arguments), analysed(arguments));
}

TEST_F(PlayTest, AnalysesEveryGameFromTheStart) {
  for (const std::string& game : kGames) {
    const Json found = analysed({"--game", game, "--analyze", "", "--sims", "200"});
    EXPECT_FALSE(found["best_action"].get<std::string>().empty()) << game;
    const std::string again =
        analysed({"--game", game, "--analyze", found["position"].get<std::string>(), "--sims",
                  "200"})["position"];
    EXPECT_EQ(again, found["position"].get<std::string>()) << game;
  }
}

TEST_F(PlayTest, ProvesWithSolve) {
  const Json found =
      analysed({"--game", "tic_tac_toe", "--analyze", "", "--sims", "200000", "--solve"});
  EXPECT_EQ(found["proven"], true);
  EXPECT_EQ(found["value"], 0.0);
}

TEST_F(PlayTest, OneSimulationStillNamesAnAction) {
  EXPECT_EQ(analysed({"--game", "tic_tac_toe", "--analyze", "5", "--sims", "1"})["root"].size(),
            8U);
}

TEST_F(PlayTest, DrawsTheTree) {
  const std::string svg = (folder_ / "tree.svg").string();
  EXPECT_EQ(run({"--game", "tic_tac_toe", "--analyze", "5", "--sims", "500", "--tree", svg,
                 "--tree-nodes", "12"})
                .status,
            0);
  const std::string drawn = contents(svg);
  EXPECT_TRUE(drawn.starts_with("<svg")) << drawn.substr(0, 50);
  EXPECT_TRUE(drawn.ends_with("</svg>\n"));
  size_t nodes = 0;
  for (size_t at = drawn.find("<g>"); at != std::string::npos; at = drawn.find("<g>", at + 1)) {
    ++nodes;
  }
  EXPECT_EQ(nodes, 12U);
  const std::string dot = (folder_ / "tree.dot").string();
  EXPECT_EQ(run({"--game", "2048", "--analyze", "", "--sims", "500", "--tree", dot}).status, 0);
  EXPECT_TRUE(contents(dot).starts_with("digraph"));
}

TEST_F(PlayTest, PlaysAgainstItself) {
  const Ran ran = run({"--game", "tic_tac_toe", "--selfplay", "6", "--sims", "2000", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.errors;
  const Json found = parse_json(ran.out, "mcts_play");
  EXPECT_EQ(found["games"], 6);
  EXPECT_EQ(found["wins"][0].get<int>() + found["wins"][1].get<int>() + found["draws"].get<int>(),
            6);
  EXPECT_GE(found["draws"].get<int>(), 4);  // with 2000 simulations hardly anybody loses
  const Ran uneven = run({"--game", "connect_four", "--selfplay", "10", "--sims", "2000",
                          "--opponent-sims", "5", "--json"});
  EXPECT_GE(parse_json(uneven.out, "mcts_play")["wins"][0].get<int>(), 8);
}

TEST_F(PlayTest, SearchesWithEveryPolicyByName) {
  for (const char* policy :
       {"uct", "uct_tuned", "puct", "gumbel", "rave", "epsilon_greedy", "wu_uct", "widening"}) {
    for (const char* game : {"connect_four", "peg_solitaire", "2048"}) {
      std::vector<std::string> arguments = {"--game", game, "--analyze", "", "--sims", "300"};
      arguments.insert(arguments.end(), {"--policy", policy});
      const Json found = analysed(arguments);
      EXPECT_GT(found["root"].size(), 0U) << policy << ' ' << game;
    }
  }
}

TEST_F(PlayTest, ReadsAConfiguration) {
  const std::string path = (folder_ / "play.yaml").string();
  std::ofstream(path) << "game: connect_four\npolicy: puct\nsimulations: 400\n"
                         "search: {puct_c: 2.0, first_play: parent, noise_fraction: 0.25,\n"
                         "         parallelism: deterministic, threads: 2, batch: 8}\n";
  const Json found = analysed({"--config", path, "--analyze", "4453"});
  EXPECT_EQ(found["game"], "connect_four");
  uint64_t visits = 0;
  for (const Json& row : found["root"]) {
    visits += row["visits"].get<uint64_t>();
  }
  EXPECT_EQ(visits, 399U);
  // The command line wins, wherever it stands.
  EXPECT_EQ(analysed({"--game", "tic_tac_toe", "--config", path, "--analyze", ""})["game"],
            "tic_tac_toe");
  std::ofstream(path) << "game: connect_four\nsearch: {uct_cc: 1}\n";
  expect_refused({"--config", path, "--analyze", ""}, {path + ":2", "uct_cc", "uct_c?"});
  std::ofstream(path) << "game: connect_four\npolicy: graph\n";
  EXPECT_EQ(analysed({"--config", path, "--analyze", "", "--sims", "100"})["root"].size(), 7U);
  std::ofstream(path) << "policy: grap\n";
  expect_refused({"--config", path, "--analyze", ""}, {path + ":1", "did you mean graph?"});
  std::ofstream(path) << "policy: gumbl\n";
  expect_refused({"--config", path, "--analyze", ""}, {"policy", "gumbel"});
  std::ofstream(path) << "search: {parallelism: batch}\n";
  expect_refused({"--config", path, "--analyze", ""}, {"search.parallelism", "batched"});
}

TEST_F(PlayTest, PlaysManyGamesInOneBatch) {
  const Ran ran = run({"--game", "tic_tac_toe", "--selfplay", "20", "--sims", "100", "--policy",
                       "puct", "--parallelism", "batched", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.errors;
  const Json played = parse_json(ran.out, "mcts_play");
  EXPECT_EQ(played["games"], 20);
  EXPECT_EQ(
      played["draws"].get<int>() + played["wins"][0].get<int>() + played["wins"][1].get<int>(), 20);
  expect_refused({"--game", "tic_tac_toe", "--analyze", "5", "--parallelism", "batched"},
                 {"--parallelism", "--selfplay"});
  expect_refused({"--game", "connect_four", "--analyze", "4", "--policy", "gumbel", "--solve"},
                 {"search.solve", "Gumbel"});
}

TEST_F(PlayTest, Measures) {
  const Ran ran = run({"--game", "connect_four", "--bench", "--sims", "5000", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.errors;
  const Json found = parse_json(ran.out, "mcts_play");
  EXPECT_GT(found["simulations_per_second"].get<double>(), 1000);
  EXPECT_GT(found["bytes_per_node"].get<double>(), 8);
  EXPECT_LT(found["bytes_per_node"].get<double>(), 24);
  EXPECT_EQ(found["simulations"], 5000);
}

TEST_F(PlayTest, PlaysWithAPerson) {
  const Ran ran =
      run({"--game", "tic_tac_toe", "--sims", "500"}, "5\nhelp\nmoves\nundo\n5\n99\nhint\nquit\n");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  for (const char* word : {"player 2 plays", "no legal action", "undo, quit", "visits"}) {
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << " not in " << ran.out;
  }
  EXPECT_EQ(run({"--game", "connect_four", "--human", "none", "--sims", "50"}).status, 0);
  EXPECT_EQ(run({"--game", "kuhn_poker", "--sims", "100"}, "").status, 0);
}

TEST_F(PlayTest, ShowsAllSimulationsOfAPolicyThatBeginsAnewWithEachRun) {
  const auto table = [&](std::vector<std::string> arguments, const std::string& policy) {
    arguments.insert(arguments.end(),
                     {"--game", "connect_four", "--sims", "1000", "--policy", policy});
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    const size_t begin = ran.out.find("  action ");
    const size_t end = std::min(ran.out.find("\n  value ", begin), ran.out.find("\n\nbest", begin));
    return ran.out.substr(begin, end - begin);
  };
  for (const char* policy : {"gumbel", "open_loop"}) {
    EXPECT_EQ(table({"--human", "none"}, policy), table({"--analyze", ""}, policy)) << policy;
  }
}

TEST_F(PlayTest, NamesWhatIsWrong) {
  expect_refused({"--game", "go", "--selfplay", "2", "--time", "5", "--parallelism", "batched"},
                 {"--time", "--sims"});
  expect_refused({"--game", "conect_four"}, {"conect_four", "did you mean connect_four?"});
  expect_refused({}, {"--game", "tic_tac_toe"});
  expect_refused({"--gane", "go"}, {"--gane", "--game"});
  expect_refused({"--game"}, {"--game", "NAME"});
  expect_refused({"go"}, {"go", "option"});
  expect_refused({"--game", "go", "--sims", "0"}, {"--sims", "from 1", "\"0\""});
  expect_refused({"--game", "go", "--sims", "many"}, {"--sims", "whole number", "many"});
  expect_refused({"--game", "go", "--uct_c", "nan"}, {"--uct_c", "nan"});
  expect_refused({"--game", "go", "--parallelism", "trees"},
                 {"--parallelism", "did you mean tree?"});
  expect_refused({"--game", "go", "--analyze", "", "--policy", "graph"},
                 {"--policy: go depends on earlier positions", "another than graph"});
  expect_refused({"--game", "go", "--bench", "--selfplay", "2"}, {"several"});
  expect_refused({"--game", "go", "--analyze", "", "--tree", "x.png"}, {"--tree", ".svg"});
  expect_refused({"--game", "go", "--analyze", "", "--tree", "/nowhere/x.svg"},
                 {"--tree", "/nowhere", "no such folder"});
  expect_refused({"--game", "connect_four", "--analyze", "4453", "--position", "44"},
                 {"--position", "--analyze"});
  expect_refused({"--game", "connect_four", "--selfplay", "2", "--human", "first"}, {"--human"});
  expect_refused({"--game", "racetrack", "--selfplay", "2", "--opponent-sims", "10"},
                 {"--opponent-sims", "racetrack", "one player"});
  expect_refused({"--list", "--json"}, {"--json", "--analyze"});
  expect_refused({"--game", "connect_four", "--analyze", "44x"},
                 {"character 3", "\"x\"", "1 2 3 4 5 6 7"});
  expect_refused({"--game", "connect_four", "--analyze", "4444444"},
                 {"character 7", "\"4\"", "1 2 3 5 6 7"});
  expect_refused({"--game", "connect_four", "--analyze", "1212121"}, {"over"});
  expect_refused({"--game", "connect_four", "--analyze", "12121212"},
                 {"character 8", "end of the game"});
  expect_refused({"--game", "connect_four", "--analyze", "./"}, {"6 rows of 7"});
  expect_refused({"--game", "othello", "--analyze", "f5 a1"}, {"a1", "d6"});
}

TEST_F(PlayTest, AnyArgumentsEndInAnAnswerOrARefusal) {
  const std::vector<std::string> words = {
      "--game",     "tic_tac_toe", "--analyze", "5",   "--sims",     "3",       "--json", "--bench",
      "--selfplay", "1",           "-1",        "",    "--tree",     "--human", "none",   "x/x",
      "--solve",    "--threads",   "2",         "--=", "--rollouts", "1e9",     "5519",   "--list"};
  Random rng(20261121);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::string> arguments;
    for (uint32_t n = rng.below(7); n > 0; --n) {
      arguments.push_back(words[rng.below(static_cast<uint32_t>(words.size()))]);
    }
    const Ran ran = run(arguments);
    std::string all;
    for (const std::string& each : arguments) {
      all += " " + quoted(each);
    }
    EXPECT_TRUE(ran.status == 0 || ran.status == 2) << ran.status << " from" << all << "\n"
                                                    << ran.errors;
    EXPECT_EQ(ran.status == 2, !ran.errors.empty()) << all;
  }
}

}  // namespace
}  // namespace mstrain::mcts
