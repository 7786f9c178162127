// The program of docs/mcts.md; a test compares the two.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

// tour begins
#include "mcts/evaluators.h"
#include "mcts/games/connect_four.h"
#include "mcts/search/search.h"

using namespace mstrain::mcts;

int tour() {
  ConnectFour game = play_moves(ConnectFour(), "4453");
  Search<ConnectFour> search({.seed = 1, .solve = true});
  RandomRollout rollout;
  auto result = search.run(game, rollout, Budget::sims(10'000));
  while (result.action) {
    fmt::print("{} plays {}: value {:+.3f}\n", game.player() == 0 ? 'x' : 'o', *result.action + 1,
               result.value);
    game.apply(*result.action);
    if (game.player() == kTerminal) {
      break;
    }
    search.advance(*result.action);  // what is known below the move stays
    result = search.run(rollout, Budget::milliseconds(2));
  }
  fmt::print("{}", game.draw());
  return static_cast<int>(game.returns()[0]);
}
// tour ends

namespace {

std::string tour_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(Tour, PlaysAGameToItsEnd) { EXPECT_LE(std::abs(tour()), 1); }

TEST(Tour, IsTheOneInTheDocumentation) {
  const std::string root = MSTRAIN_SOURCE_DIR;
  const std::string here = tour_text(root + "/tests/mcts/games_tour_test.cc");
  const size_t begin = here.find("// tour begins\n") + 15;
  const size_t end = here.find("// tour ends\n");
  ASSERT_LT(begin, end);
  EXPECT_NE(tour_text(root + "/docs/mcts.md").find(here.substr(begin, end - begin)),
            std::string::npos)
      << "docs/mcts.md shows another program than tests/mcts/games_tour_test.cc";
}

}  // namespace
