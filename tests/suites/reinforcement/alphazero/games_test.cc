// Games of self-play, the network behind them, and matches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/tensor/host.h"
#include "mcts/any_search.h"
#include "mcts/search/gumbel.h"
#include "suites/reinforcement/alphazero/openings.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/suites/reinforcement/alphazero/small.h"

namespace mstrain::alphazero {
namespace {

std::vector<LearnedGame> games_on(int threads, const Config& config, uint64_t seed) {
  const BoardGame game(config.game, "game");
  NetworkEvaluator network(game, PolicyValueNetwork(config.network, game), threads);
  network.set_params(first_params(config, game, 7));
  CachingEvaluator evaluator(network, game, config.algorithm.cache);
  std::vector<LearnedGame> out;
  for (const auto& played :
       play_games(config.algorithm, game, seed, threads, evaluator.any()).games) {
    out.push_back(learned(played, game, 0));
  }
  return out;
}

TEST(AlphaZeroGames, AreTheSameForOneSeedWhateverTheNumberOfThreads) {
  for (const SearchKind kind : {SearchKind::kPuct, SearchKind::kGumbel}) {
    for (const char* name : {"tic_tac_toe", "connect_four"}) {
      Config config = small_config(name);
      config.algorithm.search = kind;
      const std::vector<LearnedGame> alone = games_on(1, config, 3);
      EXPECT_EQ(alone.size(), 12);
      EXPECT_TRUE(alone == games_on(1, config, 3));
      EXPECT_TRUE(alone == games_on(3, config, 3));
      EXPECT_FALSE(alone == games_on(1, config, 4));
    }
  }
}

TEST(AlphaZeroGames, MayBeginByChance) {
  for (const char* name : {"tic_tac_toe", "connect_four"}) {
    Config config = small_config(name);
    config.algorithm.games = 60;
    config.algorithm.random_moves = 9;  // a game of tic-tac-toe is over by then
    const BoardGame game(name, "game");
    const std::vector<LearnedGame> found = games_on(1, config, 3);
    EXPECT_TRUE(found == games_on(3, config, 3));
    std::set<size_t> openings;
    TemporaryFolder folder;
    Replay replay(real_files(), folder.path(), game, 1 << 20);
    int64_t positions = 0;
    for (const LearnedGame& played : found) {
      openings.insert(played.opening());
      EXPECT_GE(played.positions(), 1);
      positions += played.positions();
      AnyGame state = game.start();
      for (size_t i = 0; i < played.moves.size(); ++i) {
        EXPECT_EQ(played.moves[i].policy.empty(), i < played.opening());
        ASSERT_GE(state.player(), 0);
        state.apply(played.moves[i].action);
      }
      EXPECT_EQ(state.player(), mcts::kTerminal);
      replay.add(played);
    }
    EXPECT_GE(openings.size(), 5U);
    EXPECT_TRUE(openings.contains(0));
    EXPECT_EQ(replay.positions(), positions);
    for (int64_t i = 0; i < positions; ++i) {
      const auto [played, move] = replay.at(i);
      EXPECT_GE(move, played.opening());
    }
    replay.end_iteration();
    const std::string id = replay.prepare(1);
    Replay again(real_files(), folder.path(), game, 1 << 20);
    again.resume(id);
    EXPECT_TRUE(again.games() == replay.games());
  }
}

TEST(AlphaZeroGames, SearchesCountWhatComesLaterForLess) {
  Config config = small_config();
  const auto highest = [&](double discount) {
    config.algorithm.discount = discount;
    float most = 0;
    for (const LearnedGame& played : games_on(1, config, 3)) {
      EXPECT_TRUE(std::abs(played.result) == 1 || played.result == 0) << played.result;
      for (const LearnedGame::Move& move : played.moves) {
        most = std::max(most, std::abs(move.value));
      }
    }
    return most;
  };
  EXPECT_GT(highest(1), 0.8F);
  EXPECT_LT(highest(0.5), 0.55F);  // a win is a move away at least
}

TEST(AlphaZeroGames, EveryKindOfNetworkAnswersWithPoliciesAndValues) {
  Config config = small_config("connect_four");
  const BoardGame game(config.game, "game");
  for (const auto type : {NetworkConfig::Type::kResidual, NetworkConfig::Type::kMlp,
                          NetworkConfig::Type::kTransformer}) {
    config.network = {.type = type, .blocks = 1, .width = 8, .heads = 2, .head_width = 8};
    const PolicyValueNetwork network(config.network, game);
    const Params params = first_params(config, game, 1);
    const auto x = uninitialised({Dtype::kF32, {3, 3, 6, 7}});
    HostWrite write(x);
    for (size_t i = 0; i < write.values<float>().size(); ++i) {
      write.values<float>()[i] = static_cast<float>(i % 5) / 4;
    }
    write.finish();
    const auto [logits, value] = network(params, x);
    EXPECT_EQ(logits.shape(), (Shape{3, 7}));
    EXPECT_EQ(value.shape(), (Shape{3}));
    for (const double v : to_doubles(value)) {
      EXPECT_LT(std::abs(v), 1);
    }
    const std::vector<double> rows = to_doubles(logits);
    EXPECT_NE(rows[0], rows[7]) << "rows of other positions are alike";
  }
}

TEST(AlphaZeroGames, AnEvaluationDoesNotDependOnItsBatch) {
  const Config config = small_config();
  const BoardGame game(config.game, "game");
  NetworkEvaluator network(game, PolicyValueNetwork(config.network, game), 2);
  network.set_params(first_params(config, game, 1));
  const std::vector<AnyGame> states = openings(game, 60, 1);
  const auto answers = [&](size_t count) {
    std::vector<mcts::EvalItem<AnyGame>> items(count);
    std::vector<mcts::ActionBuffer> legal(count);
    std::vector<std::vector<float>> priors(count);
    for (size_t i = 0; i < count; ++i) {
      states[i].legal(legal[i]);
      priors[i].resize(legal[i].size());
      items[i].state = &states[i];
      items[i].actions = legal[i].span();
      items[i].priors = priors[i];
    }
    mcts::EvalBatch<AnyGame> batch{items};
    network.evaluate(batch);
    return std::pair(priors, items[0].values);
  };
  const auto [many, value_of_many] = answers(60);
  const auto [one, value_of_one] = answers(1);
  for (size_t a = 0; a < one[0].size(); ++a) {
    EXPECT_NEAR(one[0][a], many[0][a], 1e-5);  // sums of other lengths of registers
  }
  EXPECT_NEAR(value_of_one[0], value_of_many[0], 1e-5);
  EXPECT_EQ(value_of_one[0], -value_of_one[1]);
}

// Of the paper: softmax(logits + sigma(completed q)), sigma(q) = (c_visit + max visits) c_scale q with q rescaled to [0, 1].
TEST(AlphaZeroGames, WhatGumbelLearnsIsTheImprovedPolicyOfItsFormula) {
  Config config = small_config("connect_four");
  const BoardGame game(config.game, "game");
  NetworkEvaluator network(game, PolicyValueNetwork(config.network, game), 1);
  network.set_params(first_params(config, game, 5));
  mcts::AnyEvaluator<AnyGame> evaluator(network);
  const mcts::SearchConfig search_config{.seed = 2, .gumbel_considered = 4};
  const auto search = mcts::any_searches().make("gumbel", search_config);
  search->set_root(game.start());
  const auto result = search->run(evaluator, mcts::Budget::sims(16));

  mcts::ActionBuffer legal;
  game.start().legal(legal);
  std::vector<float> priors(legal.size());
  const AnyGame start = game.start();
  std::vector<mcts::EvalItem<AnyGame>> item(1);
  item[0].state = &start;
  item[0].actions = legal.span();
  item[0].priors = priors;
  mcts::EvalBatch<AnyGame> batch{item};
  network.evaluate(batch);
  const double total = std::accumulate(priors.begin(), priors.end(), 0.0);

  ASSERT_EQ(result.edges.size(), legal.size());
  double visits = 0, visited_prior = 0, weighed = 0, most = 0;
  for (const auto& edge : result.edges) {
    const double prior = priors[edge.action] / total;
    if (edge.visits > 0) {
      visits += static_cast<double>(edge.visits);
      visited_prior += prior;
      weighed += prior * edge.value;
      most = std::max(most, static_cast<double>(edge.visits));
    }
  }
  const double raw = item[0].values[0];
  const double mixed = (raw + visits * weighed / visited_prior) / (1 + visits);
  double low = mixed, high = mixed;
  for (const auto& edge : result.edges) {
    low = edge.visits > 0 ? std::min(low, edge.value) : low;
    high = edge.visits > 0 ? std::max(high, edge.value) : high;
  }
  std::vector<double> expected;
  double sum = 0;
  for (const auto& edge : result.edges) {
    const double q = ((edge.visits > 0 ? edge.value : mixed) - low) / (high - low);
    expected.push_back(priors[edge.action] / total * std::exp((50 + most) * 0.1 * q));
    sum += expected.back();
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    // Priors are kept in half precision.
    EXPECT_NEAR(result.edges[i].weight, expected[i] / sum, 4e-3) << "action " << i;
  }
}

TEST(AlphaZeroMatches, EloFollowsFromTheScore) {
  EXPECT_NEAR(*elo_of_score(0.5), 0, 1e-12);
  EXPECT_NEAR(*elo_of_score(10.0 / 11), 400, 1e-9);
  EXPECT_NEAR(*elo_of_score(1.0 / 11), -400, 1e-9);
  EXPECT_FALSE(elo_of_score(1));
  EXPECT_FALSE(elo_of_score(0));
}

TEST(AlphaZeroMatches, OpeningsAreDifferentPositionsOfOneLength) {
  const BoardGame game("connect_four", "game");
  const std::vector<AnyGame> found = openings(game, 49, 3);
  std::set<uint64_t> hashes;
  for (const AnyGame& state : found) {
    hashes.insert(state.hash());
  }
  EXPECT_EQ(hashes.size(), 49);
  EXPECT_EQ(found.size(), 49);
}

// To a search that is longer than the one they are chosen by.
TEST(AlphaZeroMatches, OpeningsAreMoreEvenThanPositionsAreInTheMean) {
  const BoardGame game("connect_four", "game");
  const auto mean_bias = [&](const std::vector<AnyGame>& states) {
    double sum = 0;
    for (const AnyGame& state : states) {
      const auto search = game.playable().search({.seed = 5}, mcts::RandomRollout{});
      search->set_root(state);
      sum += std::abs(search->run(mcts::Budget::sims(3000)).value);
    }
    return sum / static_cast<double>(states.size());
  };
  std::vector<AnyGame> all;  // of three moves
  for (mcts::Action a = 0; a < 7; ++a) {
    for (mcts::Action b = 0; b < 7; ++b) {
      for (mcts::Action c = 0; c < 7; ++c) {
        all.push_back(game.start());
        for (const mcts::Action action : {a, b, c}) {
          all.back().apply(action);
        }
      }
    }
  }
  EXPECT_LT(mean_bias(openings(game, 40, 1)), 0.6 * mean_bias(all));
}

// Games that are played again would make error bars narrower than what they tell.
TEST(AlphaZeroMatches, MoreOpeningsThanThereAreAreRefused) {
  const BoardGame game("tic_tac_toe", "game");
  // Of six moves: x has 3 of 9 cells, o 3 of 6, neither of them one of the 8 lines, of which 6 pairs are parallel.
  constexpr int64_t kMost = 84 * 20 - 2 * 8 * 20 + 2 * 6;
  std::set<uint64_t> hashes;
  for (const AnyGame& state : openings(game, kMost, 1)) {
    hashes.insert(state.hash());
  }
  EXPECT_EQ(hashes.size(), kMost);
  EXPECT_THROW(openings(game, kMost + 1, 1), Error);
  check_openings(game, 2 * kMost, "--games");
  try {
    check_openings(game, 2 * kMost + 2, "--games");
    ADD_FAILURE() << "an opening too many was accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("--games: 2746 games are of 1373 openings"));
    EXPECT_THAT(error.what(), testing::HasSubstr("at most 2744"));
  }
}

TEST(AlphaZeroMatches, EqualPlayersScoreHalf) {
  const BoardGame game("connect_four", "game");
  const auto a = uct_contestant(game, 50, 2);
  const MatchResult result = play_match(game, *a, *a, 200, 11, kGoOn);
  EXPECT_EQ(result.all().games(), 200);
  EXPECT_NEAR(result.score(), 0.5, 3 * result.standard_error());

  // A network that draws nothing plays both games of an opening alike, so that each pair is worth exactly one half.
  const Config config = small_config("connect_four");
  NetworkEvaluator network(game, PolicyValueNetwork(config.network, game), 1);
  network.set_params(first_params(config, game, 5));
  mcts::AnyEvaluator<AnyGame> evaluator(network);
  const auto b = network_contestant("b", AgentConfig(config), evaluator, 8);
  const MatchResult exact = play_match(game, *b, *b, 20, 1, kGoOn);
  EXPECT_EQ(exact.score(), 0.5);
  for (const double pair : exact.pair_scores) {
    EXPECT_EQ(pair, 0.5);
  }
}

TEST(AlphaZeroMatches, AreTheSameForOneSeedAndShowWhoIsStronger) {
  const BoardGame game("connect_four", "game");
  const auto strong = uct_contestant(game, 200, 2);
  const auto weak = uct_contestant(game, 10, 1);
  const MatchResult one = play_match(game, *strong, *weak, 40, 1, kGoOn);
  const MatchResult two = play_match(game, *strong, *weak, 40, 1, kGoOn);
  EXPECT_EQ(one.pair_scores, two.pair_scores);
  EXPECT_GT(one.score(), 0.8);
  EXPECT_EQ(one.by_colour[0].games(), one.by_colour[1].games());
  const std::atomic<bool> stop = true;
  EXPECT_THROW(play_match(game, *strong, *weak, 40, 1, stop), Stopped);
}

TEST(AlphaZeroMatches, GamesThatAlphaZeroCannotLearnAreRefusedByName) {
  for (const auto& [name, why] :
       {std::pair("kuhn_poker", "hides cards"), std::pair("2048", "chance"),
        std::pair("connect_fuor", "did you mean connect_four")}) {
    try {
      const BoardGame game(name, "game");
      ADD_FAILURE() << name << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(why));
    }
  }
}

}  // namespace
}  // namespace mstrain::alphazero
