// What a caller of MuZeroSearch does wrong ends in an error that says so.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "mcts/search/muzero.h"
#include "tests/core/base/message_of.h"

namespace mstrain::mcts {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

TEST(MuZeroErrors, NothingIsKnownBeforeThereAreRoots) {
  for (const bool gumbel : {false, true}) {
    MuZeroSearch search({.actions = 4, .simulations = 8, .gumbel = gumbel});
    const auto expect_refused = [&] {
      constexpr const char* kMessage =
          "muzero search: nothing is known of root 0 before set_roots()";
      EXPECT_EQ(message_of<Error>([&] { search.policy(0); }), kMessage);
      EXPECT_EQ(message_of<Error>([&] { search.best_action(0); }), kMessage);
      EXPECT_EQ(message_of<Error>([&] { search.value(0); }), kMessage);
      EXPECT_EQ(message_of<Error>([&] { search.visits(0); }), kMessage);
      EXPECT_EQ(message_of<Error>([&] { search.action_values(0); }), kMessage);
    };
    expect_refused();
    const std::vector<float> value(1, 0.0F);
    EXPECT_THROW(search.set_roots(std::vector<float>(4, NAN), value), Error);
    expect_refused();
    search.set_roots(std::vector<float>(4, 0.0F), value);
    EXPECT_LT(search.best_action(0), 4U);
    EXPECT_EQ(search.visits(0), std::vector<uint32_t>(4, 0));
  }
}

TEST(MuZeroErrors, LogitsOfAnswersAreNumbers) {
  for (const int64_t codes : {0, 3}) {
    MuZeroSearch search({.roots = 2, .actions = 2, .simulations = 8, .chance_codes = codes});
    const std::vector<float> zeros(2, 0.0F);
    search.set_roots(std::vector<float>(4, 0.0F), zeros);
    std::vector<uint32_t> nodes(2);
    std::vector<uint32_t> actions(2);
    for (int s = 0; s < 8; ++s) {
      search.gather(nodes, actions);
      const size_t width = static_cast<size_t>(2 + codes);
      const bool is_afterstate = actions[1] < 2 && codes > 0;
      const auto row = [&](float read, float unread) {
        std::vector<float> logits(2 * width, 0.0F);
        std::fill_n(logits.begin() + static_cast<ptrdiff_t>(width), 2,
                    is_afterstate ? unread : read);
        std::fill_n(logits.begin() + static_cast<ptrdiff_t>(width) + 2, codes,
                    is_afterstate ? read : unread);
        return logits;
      };
      for (const float bad : {kNever, -kNever, static_cast<float>(NAN)}) {
        EXPECT_EQ(message_of<Error>([&] { search.scatter(zeros, zeros, row(bad, 0)); }),
                  "muzero search: the logits of root 1 hold no finite one, or something that is no "
                  "number");
      }
      search.scatter(zeros, zeros, row(0, NAN));
    }
    EXPECT_EQ(search.done(), 8);
  }
}

}  // namespace
}  // namespace mstrain::mcts
