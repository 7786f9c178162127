// What a game or an evaluator does wrong while many trees share a batch, or while several results are awaited at once.
#include <gtest/gtest.h>

#include <cmath>

#include "mcts/evaluators.h"
#include "mcts/search/batch_search.h"
#include "mcts/search/search.h"
#include "mcts/search/self_play.h"
#include "tests/core/base/message_of.h"
#include "tests/mcts/engine_games.h"

namespace mstrain::mcts {
namespace {

using namespace testing;  // NOLINT: the games of this folder

const BatchOptions kOptions[] = {{6, 1, 1}, {6, 3, 1}, {6, 2, 3}};

template <class Batch, class S>
void set_roots(Batch& search, const S& root) {
  for (int64_t i = 0; i < search.size(); ++i) {
    search.set_root(i, root);
  }
}

TEST(BatchSearch, ABrokenGameEndsTheRun) {
  const std::pair<Fault, const char*> faults[] = {
      {Fault::kThrowInApply, "apply broke"},     {Fault::kThrowInLegal, "legal broke"},
      {Fault::kThrowInReturns, "returns broke"}, {Fault::kNoLegal, "has no legal action"},
      {Fault::kBadPlayer, "player() is 7"},      {Fault::kBadAction, "action 1000000"},
  };
  RandomRollout rollout;
  for (const BatchOptions& options : kOptions) {
    for (const auto& [fault, words] : faults) {
      BatchSearch<Broken, UctPolicies> search({.seed = 1}, options);
      set_roots(search, Broken{.when = 100});
      search.set_root(4, Broken{.fault = fault});  // one of six
      const std::string message = message_of<std::exception>([&] { search.run(rollout, 2000); });
      EXPECT_NE(message.find(words), std::string::npos) << message;
      set_roots(search, Broken{.when = 100});
      search.run(rollout, 50);
      EXPECT_EQ(search.tree(4).root_visits(), 50U);
    }
  }
}

struct BadRow {
  static constexpr bool kPriors = true;
  float value;
  float prior;
  int good = 20;
  void evaluate(EvalBatch<Nim>& batch) {
    for (auto& item : batch.items) {
      const bool bad = --good < 0;
      item.values = {bad ? value : 0, 0};
      std::fill(item.priors.begin(), item.priors.end(), bad ? prior : 1.0F);
    }
  }
};

TEST(BatchSearch, NumbersThatAreNoneEndTheRun) {
  const std::pair<float, float> rows[] = {
      {NAN, 1}, {INFINITY, 1}, {0, NAN}, {0, -1}, {0, INFINITY}};
  for (const BatchOptions& options : kOptions) {
    for (const auto& [value, prior] : rows) {
      BatchSearch<Nim> search({.seed = 1}, options);
      set_roots(search, Nim{});
      BadRow bad{value, prior};
      const std::string message = message_of<std::exception>([&] { search.run(bad, 200); });
      EXPECT_EQ(message.find("evaluator:"), 0U) << message;
      set_roots(search, Nim{});
      BadRow good{0, 1, 1 << 20};
      search.run(good, 50);
      EXPECT_EQ(search.tree(0).root_visits(), 50U);
    }
  }
}

TEST(BatchSearch, ACallbackOfTheWrongSizeIsNamed) {
  for (const BatchOptions& options : kOptions) {
    BatchSearch<Nim> search({.seed = 1}, options);
    set_roots(search, Nim{});
    CallbackEvaluator wrong{[](const NetworkInput& in, NetworkOutput& out) {
      out.values.assign(in.movers.size() * 2 + 1, 0.0F);
      out.priors.assign(in.movers.size() * 4, 1.0F);
    }};
    const std::string message = message_of<std::exception>([&] { search.run(wrong, 10); });
    EXPECT_NE(message.find("values for a batch of"), std::string::npos) << message;
  }
}

TEST(SelfPlay, ABrokenGameComesOut) {
  RandomRollout rollout;
  const std::function<Broken(int64_t)> start = [](int64_t number) {
    return Broken{.fault = Fault::kThrowInApply, .when = number == 7 ? 3 : 100};
  };
  const std::string message = message_of<std::exception>([&] {
    self_play<UctPolicies, Broken>({.seed = 1},
                                   {.batch = kOptions[2], .games = 12, .simulations = 20}, start,
                                   rollout, [](PlayedGame<Broken>&&) {});
  });
  EXPECT_EQ(message, "apply broke");
}

TEST(CallbackEvaluator, OfTheWrongSizeIsNamedInEveryMode) {
  for (const Parallelism kind : {Parallelism::kSerial, Parallelism::kRoot, Parallelism::kLeaf,
                                 Parallelism::kTree, Parallelism::kDeterministic}) {
    Search<Nim, PuctPolicies> search({.seed = 1, .parallelism = kind, .threads = 3});
    CallbackEvaluator values{[](const NetworkInput& in, NetworkOutput& out) {
      out.values.assign(in.movers.size() * 2 - 1, 0.0F);
    }};
    std::string message =
        message_of<std::exception>([&] { search.run(Nim{}, values, Budget::sims(100)); });
    EXPECT_NE(message.find("values for a batch of"), std::string::npos) << message;
    CallbackEvaluator priors{[](const NetworkInput& in, NetworkOutput& out) {
      out.values.assign(in.movers.size() * 2, 0.0F);
      out.priors.assign(in.movers.size() * 3, 1.0F);
    }};
    message = message_of<std::exception>([&] { search.run(Nim{}, priors, Budget::sims(100)); });
    EXPECT_NE(message.find("priors for a batch of"), std::string::npos) << message;
  }
}

TEST(GatherAndScatter, SurviveWhatIsWrong) {
  Search<Broken> broken({.seed = 1});
  EvalBatch<Broken> leaves;
  const auto fill = [](auto& batch) {
    for (auto& item : batch.items) {
      item.values = {0, 0};
      std::fill(item.priors.begin(), item.priors.end(), 1.0F);
    }
  };
  broken.set_root(Broken{.fault = Fault::kThrowInApply});
  EXPECT_EQ(message_of<std::exception>([&] {
              for (int round = 0; round < 200; ++round) {
                broken.gather(leaves, 4, Budget::sims(10000));
                fill(leaves);
                broken.scatter(leaves);
              }
            }),
            "apply broke");

  Search<Nim, PuctPolicies> search({.seed = 1});
  EvalBatch<Nim> batch;
  search.set_root(Nim{});
  search.gather(batch, 1, Budget::sims(1000));
  fill(batch);
  search.scatter(batch);
  ASSERT_GT(search.gather(batch, 3, Budget::sims(1000)), 1U);
  fill(batch);
  batch.items[1].values[0] = NAN;
  EXPECT_EQ(message_of<std::exception>([&] { search.scatter(batch); }),
            "evaluator: the value for player 0 is nan");
  EXPECT_EQ(search.tree().root_visits(), 0U);  // a new tree
  search.gather(batch, 3, Budget::sims(1000));
  fill(batch);
  search.scatter(batch);
  EXPECT_GT(search.tree().root_visits(), 0U);
  EXPECT_EQ(search.tree().root_visits(), search.counters().simulations);
}

}  // namespace
}  // namespace mstrain::mcts
