// What a game or an evaluator does wrong ends in an error that says so, never in a hang or a leak; the search lives on. And a
// tree that threads share without locks: run under the thread sanitizer.
#include <gtest/gtest.h>

#include <cmath>

#include "mcts/evaluators.h"
#include "mcts/search/batch_search.h"
#include "mcts/search/keyed_search.h"
#include "mcts/search/muzero.h"
#include "mcts/search/search.h"
#include "tests/core/base/message_of.h"
#include "tests/mcts/engine_games.h"
#include "tests/mcts/search_of.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder

std::vector<SearchConfig> every_mode() {
  std::vector<SearchConfig> all;
  for (const Parallelism kind : {Parallelism::kSerial, Parallelism::kRoot, Parallelism::kLeaf,
                                 Parallelism::kTree, Parallelism::kDeterministic}) {
    all.push_back({.seed = 1, .parallelism = kind, .threads = 3});
  }
  return all;
}

TEST(BrokenGames, EndInAnErrorInEveryMode) {
  const std::pair<Fault, const char*> faults[] = {
      {Fault::kThrowInApply, "apply broke"},     {Fault::kThrowInLegal, "legal broke"},
      {Fault::kThrowInReturns, "returns broke"}, {Fault::kNoLegal, "has no legal action"},
      {Fault::kBadPlayer, "player() is 7"},      {Fault::kBadAction, "action 1000000"},
  };
  for (const SearchConfig& config : every_mode()) {
    for (const auto& [fault, words] : faults) {
      Search<Broken> search(config);
      RandomRollout rollout;
      const std::string message = message_of<std::exception>(
          [&] { search.run(Broken{.fault = fault}, rollout, Budget::sims(5000)); });
      EXPECT_NE(message.find(words), std::string::npos)
          << message << " in mode " << static_cast<int>(config.parallelism);
      // An innocent game on the same search.
      const auto result = search.run(Broken{.when = 100}, rollout, Budget::sims(50));
      EXPECT_EQ(result.counters.simulations, 50U);
    }
  }
}

struct BadEvaluator {
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = true;
  enum class Kind { kNanValue, kInfiniteValue, kNanPrior, kNegativePrior, kThrows } kind;
  void evaluate(EvalBatch<AnyGame>& batch) {
    for (auto& item : batch.items) {
      item.values = {0, 0};
      std::fill(item.priors.begin(), item.priors.end(), 1.0F);
      if (inside<Nim>(*item.state).stones < 8 && !item.priors.empty()) {
        switch (kind) {
          case Kind::kNanValue: item.values[1] = NAN; break;
          case Kind::kInfiniteValue: item.values[0] = INFINITY; break;
          case Kind::kNanPrior: item.priors[0] = NAN; break;
          case Kind::kNegativePrior: item.priors[0] = -0.1F; break;
          case Kind::kThrows: throw Error("evaluator: out of memory");
        }
      }
    }
  }
};

TEST(BrokenEvaluators, EndInAnErrorInEveryMode) {
  using Kind = BadEvaluator::Kind;
  for (const SearchConfig& config : every_mode()) {
    for (const Kind kind : {Kind::kNanValue, Kind::kInfiniteValue, Kind::kNanPrior,
                            Kind::kNegativePrior, Kind::kThrows}) {
      SearchOf<Nim, PuctPolicies> search(config);
      BadEvaluator bad{kind};
      const std::string message =
          message_of<std::exception>([&] { search.run(Nim{}, bad, Budget::sims(500)); });
      EXPECT_EQ(message.find("evaluator:"), 0U) << message;
      RandomRollout rollout;
      EXPECT_EQ(search.run(Nim{}, rollout, Budget::sims(50)).counters.simulations, 50U);
    }
  }
}

TEST(BrokenEvaluators, CallbacksOfTheWrongSizeAreNamed) {
  Search<Nim, PuctPolicies> search({.seed = 1});
  CallbackEvaluator right{[](const NetworkInput& in, NetworkOutput& out) {
    EXPECT_EQ(in.observations.size(), in.movers.size() * 2);
    out.values.assign(in.movers.size() * 2, 0.0F);
    out.priors.assign(in.movers.size() * 4, 1.0F);
  }};
  EXPECT_EQ(search.run(Nim{}, right, Budget::sims(100)).counters.simulations, 100U);
  CallbackEvaluator values{[](const NetworkInput& in, NetworkOutput& out) {
    out.values.assign(in.movers.size(), 0.0F);
  }};
  EXPECT_NE(message_of<std::exception>([&] {
              search.run(Nim{}, values, Budget::sims(100));
            }).find("1 values for a batch of 1"),
            std::string::npos);
  CallbackEvaluator priors{[](const NetworkInput& in, NetworkOutput& out) {
    out.values.assign(in.movers.size() * 2, 0.0F);
    out.priors.assign(in.movers.size() * 3, 1.0F);
  }};
  EXPECT_NE(message_of<std::exception>([&] {
              search.run(Nim{}, priors, Budget::sims(100));
            }).find("3 priors for a batch of 1"),
            std::string::npos);
}

TEST(Usage, MistakesAreNamed) {
  SearchOf<Nim> search({.seed = 1});
  RandomRollout rollout;
  EXPECT_THROW(search.run(rollout, Budget::sims(10)), Error);                    // no root
  EXPECT_THROW(search.run(Nim{.stones = 0}, rollout, Budget::sims(10)), Error);  // finished
  EXPECT_THROW(search.run(Nim{}, rollout, Budget{}), Error);                     // no budget
  search.run(Nim{}, rollout, Budget::sims(10));
  EXPECT_THROW(search.advance(9), Error);
  search.advance(2);
  EXPECT_EQ(inside<Nim>(search.tree().root()).stones, 8);
  EXPECT_THROW((SearchOf<Corridor>({.solve = true}).set_root(Corridor{})), Error);
}

TEST(Usage, NumbersThatAFileMayNotHaveAreRefused) {
  const auto expect = [](const SearchConfig& config, const std::string& message) {
    EXPECT_EQ(message_of<ConfigError>([&] { SearchOf<Nim>{config}; }), message);
    EXPECT_EQ(message_of<ConfigError>([&] { BatchSearch<Nim>(config, {.trees = 1, .groups = 1}); }),
              message);
    EXPECT_EQ(message_of<ConfigError>([&] { OpenLoopSearch<Nim>{config}; }), message);
  };
  expect({.uct_c = -1}, "search.uct_c: expected a number >= 0, found -1");
  expect({.uct_c = NAN}, "search.uct_c: expected a number >= 0, found nan");
  expect({.puct_c = INFINITY}, "search.puct_c: expected a number >= 0, found inf");
  expect({.discount = 1.5}, "search.discount: expected a number > 0 and <= 1, found 1.5");
  expect({.threads = 0}, "search.threads: expected an integer >= 1 and <= 1024, found 0");
  expect({.memory_limit = 5},
         "search.memory_limit: expected an integer >= 65536 and <= 17179869184, found 5");
  EXPECT_EQ(message_of<ConfigError>([] { MuZeroSearch({.discount = 0}); }),
            "muzero.discount: expected a number > 0 and <= 1, found 0");
  const SearchConfig last{.seed = ~uint64_t{0}};
  EXPECT_NO_THROW(SearchOf<Nim>{last});
}

// Threads meet at every node of a small tree: real contention.
template <class P>
void contend() {
  RandomRollout rollout;
  for (const bool solve : {false, true}) {
    SearchConfig config{.seed = 1, .solve = solve, .parallelism = Parallelism::kTree, .threads = 4};
    SearchOf<HashTree<4, 5>, P> search(config);
    const auto result = search.run(HashTree<4, 5>{}, rollout, Budget::sims(20000));
    uint64_t visits = 0;
    for (const auto& e : result.edges) {
      visits += e.visits;
      EXPECT_LE(std::abs(e.value), 1.001);
    }
    if (!solve) {
      // A thread that arrives while the root is being expanded evaluates it once more and takes no edge.
      EXPECT_LT(visits, 20000U);
      EXPECT_GT(visits, 19000U);
      EXPECT_EQ(search.tree().root_visits(), 20000U);
      EXPECT_EQ(result.counters.simulations, 20000U);
    }
  }
}
TEST(TreeParallel, VisitsAddUpUnderContention) { contend<UctPolicies>(); }
TEST(TreeParallel, VisitsAddUpUnderContentionWithPriors) { contend<PuctPolicies>(); }
TEST(TreeParallel, VisitsAddUpUnderContentionUnobserved) { contend<WuUctPolicies>(); }

struct SlowPrior {
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = true;
  void evaluate(EvalBatch<AnyGame>& batch) {
    for (auto& item : batch.items) {
      item.values = {0.25F, -0.25F};
      std::fill(item.priors.begin(), item.priors.end(), 1.0F);
    }
  }
};

TEST(TreeParallel, LeavesUnderEvaluationAreNotEvaluatedTwice) {
  SlowPrior evaluator;
  SearchConfig config{.seed = 1, .parallelism = Parallelism::kTree, .threads = 4};
  SearchOf<HashTree<4, 5>, PuctPolicies> search(config);
  const auto result = search.run(HashTree<4, 5>{}, evaluator, Budget::sims(3000));
  EXPECT_EQ(result.counters.simulations, 3000U);
  EXPECT_EQ(result.counters.evaluations, result.counters.expansions);
  uint64_t visits = 0;
  for (const auto& e : result.edges) {
    visits += e.visits;
  }
  EXPECT_EQ(visits + 1, 3000U);
}

struct Constant {
  static constexpr bool kPriors = false;
  static constexpr bool kThreads = true;
  void evaluate(EvalBatch<AnyGame>& batch) {
    for (auto& item : batch.items) {
      item.values = {0.3F, -0.3F};
    }
  }
};

// Batches stand on the open path while they run; what they put there is taken back. How several threads spread their visits
// is the scheduler's doing: one that rests with a batch under way keeps the others from its path. No descent comes to an end
// of the game.
TEST(TreeParallel, BatchesUnderWayLeaveNoTrace) {
  constexpr uint64_t kSimulations = 100'000;
  Constant constant;
  for (const int threads : {1, 4}) {
    SearchOf<HashTree<10, 8>> search(
        {.seed = 1, .parallelism = Parallelism::kTree, .threads = threads});
    const auto result = search.run(HashTree<10, 8>{}, constant, Budget::sims(kSimulations));
    EXPECT_EQ(result.counters.simulations, kSimulations);
    uint64_t visits = 0;
    for (const auto& e : result.edges) {
      visits += e.visits;
      EXPECT_NEAR(e.value, 0.3, 1e-3);
      EXPECT_GT(e.visits, threads == 1 ? 5000U : 0U);  // of equal actions none is left behind
    }
    EXPECT_EQ(visits + 1, kSimulations);  // the first one ends at the root
  }
}

TEST(TreeParallel, FindsTheSameMoveAsOneThread) {
  RandomRollout rollout;
  for (const int stones : {5, 7, 10}) {
    SearchOf<Nim> search({.seed = 3, .uct_c = 1, .parallelism = Parallelism::kTree, .threads = 3});
    EXPECT_EQ(search.run(Nim{.stones = stones}, rollout, Budget::sims(8000)).action,
              static_cast<Action>(stones % 4));
  }
}

struct OneAtATime {
  static constexpr bool kPriors = false;
  static constexpr bool kThreads = false;
  RandomRollout rollout;
  void evaluate(EvalBatch<AnyGame>& batch) { rollout.evaluate(batch); }
};

// The first run is long enough to end with threads that work by subtrees.
TEST(TreeParallel, AnotherEvaluatorMayFollow) {
  RandomRollout rollout;
  OneAtATime one;
  SearchOf<HashTree<10, 6>> search({.seed = 1, .parallelism = Parallelism::kTree, .threads = 2});
  for (const bool anew : {true, false}) {
    search.run(HashTree<10, 6>{}, rollout, Budget::sims(200000));
    if (anew) {
      search.set_root(HashTree<10, 6>{});
    } else {
      search.advance(3);
    }
    const uint64_t before = search.tree().root_visits();
    const auto result = search.run(one, Budget::sims(2000));
    EXPECT_EQ(result.counters.simulations, 2000U);
    EXPECT_EQ(search.tree().root_visits(), before + 2000);
    EXPECT_LE(result.counters.max_depth, anew ? 6U : 5U);
  }
}

}  // namespace
}  // namespace mstrain::mcts
