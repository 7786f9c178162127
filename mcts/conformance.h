// What every game must hold, whoever wrote it. Three lines buy all of it:
//
//   TEST(Nim, Conforms) {
//     mstrain::mcts::conformance::check_game<Nim>({.playouts = 50});
//   }
//
// Random playouts from a fixed seed check, at every position and for each optional member that the game has: legality
// (actions are listed once, in range, and lead to a state), players and returns, chance, undo, independence of copies,
// notation, serialisation (also of damaged text), symmetry, hashes, observations, hidden information and the rollout hook.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "mcts/game.h"

namespace mstrain::mcts::conformance {

struct Options {
  uint64_t seed = 20261121;
  int playouts = 50;
  int max_plies = 2000;  // a playout that is longer fails
  // The rollout hook plays uniformly: its mean is compared with play by legal() and apply().
  bool rollout_is_uniform = true;
  // Positions (one in so many) whose costly checks are made: symmetry, damaged text, rollouts.
  int costly_every = 7;
};

// Everything that a state shows, as one text: equal for states that cannot be told apart from outside.
template <GameState S>
std::string describe(const S& state) {
  std::string out = "player " + std::to_string(state.player());
  if constexpr (HasPosition<S>) {
    out += "\nposition " + state.position();
  }
  if constexpr (HasDraw<S>) {
    out += "\n" + state.draw();
  }
  if constexpr (HasHash<S>) {
    out += "\nhash " + std::to_string(state.hash());
  }
  const int player = state.player();
  if (player >= 0) {
    ActionBufferOf<S> actions;
    state.legal(actions);
    out += "\nlegal";
    for (const auto& action : actions) {
      out += " " + action_text(state, action);
    }
  } else if (player == kTerminal) {
    out += "\nreturns";
    for (const float value : state.returns()) {
      out += " " + std::to_string(value);
    }
  }
  return out;
}

template <GameState S>
class Checker {
 public:
  explicit Checker(const Options& options) : options_(options), rng_(options.seed) {}

  void run() {
    SCOPED_TRACE("seed " + std::to_string(options_.seed));
    const std::string start = describe(S());
    for (int playout = 0; playout < options_.playouts && !::testing::Test::HasFailure();
         ++playout) {
      play(playout);
    }
    EXPECT_EQ(describe(S()), start) << "a new state depends on what was played before";
  }

 private:
  using A = ActionOf<S>;

  void play(int playout) {
    S state;
    std::vector<S> before;
    std::vector<A> played;
    while (state.player() != kTerminal && !::testing::Test::HasFailure()) {
      ASSERT_LT(static_cast<int>(played.size()), options_.max_plies) << "the game does not end";
      const bool costly = (checked_++ % options_.costly_every) == 0;
      const std::vector<A> actions = list_actions(state);
      ASSERT_FALSE(actions.empty()) << "no action in\n" << describe(state);
      const A action = actions[rng_.below(static_cast<uint32_t>(actions.size()))];
      S next = state;
      next.apply(action);
      check_copy(state, action);
      check_hash(state);
      check_notation(state, actions);
      check_position(state, costly);
      check_observation(state);
      check_information(state);
      if (costly) {
        check_symmetry(state, action, next);
        check_rollout(state);
      }
      before.push_back(state);
      played.push_back(action);
      state = next;
    }
    check_returns(state);
    check_hash(state);
    check_position(state, playout == 0);
    check_undo(state, before, played);
  }

  std::vector<A> list_actions(const S& state) {
    const int player = state.player();
    std::vector<A> actions;
    if (player == kChance) {
      actions = list_outcomes(state);
    } else {
      EXPECT_GE(player, 0);
      EXPECT_LT(player, S::kPlayers);
      ActionBufferOf<S> buffer;
      state.legal(buffer);
      actions.assign(buffer.begin(), buffer.end());
    }
    for (size_t i = 0; i < actions.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(actions[i] == actions[j])
            << action_text(state, actions[i]) << " is listed twice in\n"
            << describe(state);
      }
      if constexpr (HasDenseActions<S>) {
        EXPECT_LT(actions[i], S::kMaxActions) << describe(state);
      }
    }
    return actions;
  }

  std::vector<A> list_outcomes(const S& state) {
    std::vector<A> actions;
    if constexpr (HasChance<S>) {
      ChanceBufferOf<S> outcomes;
      state.chance(outcomes);
      double total = 0;
      for (const auto& outcome : outcomes) {
        EXPECT_GT(outcome.probability, 0) << describe(state);
        total += static_cast<double>(outcome.probability);
        actions.push_back(outcome.action);
      }
      EXPECT_NEAR(total, 1.0, 1e-5) << describe(state);
    }
    if constexpr (HasSampleChance<S>) {
      const A drawn = state.sample_chance(rng_);
      if constexpr (HasChance<S>) {
        EXPECT_NE(std::find(actions.begin(), actions.end(), drawn), actions.end())
            << "sample_chance drew what chance does not list in\n"
            << describe(state);
      } else {
        actions.push_back(drawn);
      }
    }
    EXPECT_FALSE(actions.empty()) << "chance has no outcome in\n" << describe(state);
    return actions;
  }

  void check_copy(const S& state, A action) {
    const std::string described = describe(state);
    S copy = state;
    copy.apply(action);
    EXPECT_EQ(describe(state), described) << "apply on a copy changed the original";
  }

  void check_hash(const S& state) {
    if constexpr (HasHash<S> && HasDraw<S>) {
      const std::string shown = std::to_string(state.player()) + state.draw();
      const auto [same_hash, is_new] = drawn_of_hash_.emplace(state.hash(), shown);
      EXPECT_EQ(same_hash->second, shown) << "two positions have one hash";
      if constexpr (HasPosition<S>) {
        const auto [same, first] = hash_of_position_.emplace(state.position(), state.hash());
        EXPECT_EQ(same->second, state.hash()) << "one position has two hashes:\n"
                                              << describe(state);
      }
    }
  }

  void check_notation(const S& state, const std::vector<A>& actions) {
    if constexpr (HasNotation<S>) {
      std::set<std::string> names;
      for (const A& action : actions) {
        EXPECT_TRUE(names.insert(state.action_to_string(action)).second)
            << "two actions are called " << state.action_to_string(action);
      }
      const A action = actions[rng_.below(static_cast<uint32_t>(actions.size()))];
      EXPECT_TRUE(state.parse_action(state.action_to_string(action)) == action) << describe(state);
      for (const char* wrong : {"", " ", "zz99", "-1", "4294967296", "a0", "\xff"}) {
        if (!names.contains(wrong)) {
          EXPECT_THROW(state.parse_action(wrong), Error)
              << '"' << wrong << "\" in " << describe(state);
        }
      }
    }
  }

  // Text that was damaged is either refused with an Error or means a position that can be written and read again.
  void check_position(const S& state, bool costly) {
    if constexpr (HasPosition<S>) {
      const std::string text = state.position();
      EXPECT_EQ(describe(S::from_position(text)), describe(state));
      for (int i = 0; costly && i < 20; ++i) {
        const std::string damaged = damage(text);
        try {
          const S read = S::from_position(damaged);
          EXPECT_EQ(describe(S::from_position(read.position())), describe(read))
              << "read from \"" << damaged << '"';
        } catch (const Error&) {
        }
      }
    }
  }

  std::string damage(std::string text) {
    for (uint32_t edits = 1 + rng_.below(3); edits > 0; --edits) {
      const size_t at = rng_.below(static_cast<uint32_t>(text.size() + 1));
      const char c = rng_.below(4) == 0 ? static_cast<char>(rng_.below(256))
                     : text.empty()     ? ' '
                                        : text[rng_.below(static_cast<uint32_t>(text.size()))];
      switch (rng_.below(4)) {
        case 0: text.insert(at, 1, c); break;
        case 1: text.erase(at, 1 + rng_.below(3)); break;
        case 2: text.resize(at); break;
        default:
          if (at < text.size()) {
            text[at] = c;
          }
      }
    }
    return text;
  }

  void check_symmetry(const S& state, A action, const S& next) {
    if constexpr (HasSymmetry<S>) {
      EXPECT_EQ(describe(state.symmetry(0)), describe(state));
      for (int k = 0; k < S::kSymmetries; ++k) {
        S turned = state.symmetry(k);
        std::set<std::string> expected;
        for (const A& a : list_actions(state)) {
          expected.insert(action_text(turned, S::symmetry_action(k, a)));
        }
        std::set<std::string> found;
        for (const A& a : list_actions(turned)) {
          found.insert(action_text(turned, a));
        }
        EXPECT_EQ(found, expected) << "symmetry " << k << " of\n" << describe(state);
        turned.apply(S::symmetry_action(k, action));
        // Legal actions may be listed in another order, so the descriptions are not compared as they are.
        const S other = next.symmetry(k);
        EXPECT_EQ(turned.player(), other.player());
        if constexpr (HasPosition<S>) {
          EXPECT_EQ(turned.position(), other.position()) << "symmetry " << k << " of\n"
                                                         << describe(state);
        }
        if constexpr (HasHash<S>) {
          EXPECT_EQ(turned.hash(), other.hash()) << "symmetry " << k << " of\n" << describe(state);
        }
        if (turned.player() == kTerminal) {
          EXPECT_EQ(turned.returns(), other.returns());
        }
      }
    }
  }

  void check_observation(const S& state) {
    if constexpr (HasObserve<S>) {
      for (int player = 0; player < S::kPlayers; ++player) {
        std::vector<float> out(static_cast<size_t>(S::kObservationSize),
                               std::numeric_limits<float>::quiet_NaN());
        state.observe(player, std::span(out));
        for (const float value : out) {
          ASSERT_TRUE(std::isfinite(value)) << "observe left something unwritten";
        }
      }
    }
    if constexpr (HasCells<S>) {
      check_cells(state);
    }
  }

  // The board says all, both ways, and is what a network sees.
  void check_cells(const S& state) {
    const auto size = static_cast<size_t>(S::kObservationSize) / S::kSymbols;
    std::vector<uint8_t> cells(size);
    state.cells(cells);
    std::vector<float> seen(static_cast<size_t>(S::kObservationSize));
    state.observe(0, std::span(seen));
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i], cells[i % size] == i / size ? 1.0F : 0.0F) << describe(state);
    }
    if (state.player() == 0 || state.player() == kTerminal) {
      EXPECT_EQ(describe(S::from_cells(cells)), describe(state));
    }
  }

  // A sample that fits what a player saw looks the same to that player, with the same choices.
  void check_information(const S& state) {
    if constexpr (HasInformation<S>) {
      for (int player = 0; player < S::kPlayers; ++player) {
        S sampled = state;
        sampled.determinize(player, rng_);
        EXPECT_EQ(sampled.information_key(player), state.information_key(player))
            << describe(state);
        EXPECT_EQ(sampled.player(), state.player());
        if (state.player() == player) {
          const std::vector<A> mine = list_actions(state);
          const std::vector<A> theirs = list_actions(sampled);
          EXPECT_TRUE(mine == theirs) << "a player can tell two samples apart by what is legal";
        }
        if constexpr (HasObserve<S>) {
          std::vector<float> seen(static_cast<size_t>(S::kObservationSize));
          std::vector<float> seen_in_sample = seen;
          state.observe(player, std::span(seen));
          sampled.observe(player, std::span(seen_in_sample));
          EXPECT_EQ(seen, seen_in_sample) << "the observation shows what is hidden";
        }
      }
    }
  }

  void check_range(const ReturnsOf<S>& values) {
    for (const float value : values) {
      EXPECT_GE(value, min_return<S>());
      EXPECT_LE(value, max_return<S>());
    }
  }

  void check_returns(const S& state) {
    if constexpr (!HasRewards<S>) {
      check_range(state.returns());
    }
    for (const float value : state.returns()) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }

  // The result of uniformly random play by legal() and apply(), rewards included.
  ReturnsOf<S> slow_rollout(S state) {
    ReturnsOf<S> total{};
    for (int ply = 0; state.player() != kTerminal; ++ply) {
      A action{};
      if (state.player() == kChance) {
        action = draw_outcome(state);
      } else {
        ActionBufferOf<S> actions;
        state.legal(actions);
        if (actions.empty() || ply > options_.max_plies) {
          ADD_FAILURE() << "random play does not end; it stands at\n" << describe(state);
          return total;
        }
        action = actions[rng_.below(static_cast<uint32_t>(actions.size()))];
      }
      state.apply(action);
      if constexpr (HasRewards<S>) {
        add(total, state.rewards());
      }
    }
    add(total, state.returns());
    return total;
  }
  A draw_outcome(const S& state) {
    if constexpr (HasChance<S>) {
      ChanceBufferOf<S> outcomes;
      state.chance(outcomes);
      double left = rng_.uniform();
      for (const auto& outcome : outcomes) {
        left -= static_cast<double>(outcome.probability);
        if (left < 0) {
          return outcome.action;
        }
      }
      return outcomes[outcomes.size() - 1].action;
    } else if constexpr (HasSampleChance<S>) {
      return state.sample_chance(rng_);
    } else {
      ADD_FAILURE() << "chance is to move, but the game has neither chance() nor sample_chance()";
      return {};
    }
  }
  static void add(ReturnsOf<S>& total, const ReturnsOf<S>& values) {
    for (size_t i = 0; i < total.size(); ++i) {
      total[i] += values[i];
    }
  }

  // Two means of 200 samples differ by less than six standard errors: one check in 10^8 fails by chance. A result that
  // only one side saw is allowed for by 8 samples of the spread.
  void check_rollout(const S& state) {
    if constexpr (HasRollout<S>) {
      constexpr int kSamples = 200;
      Mean fast;
      Mean slow;
      for (int i = 0; i < kSamples && !::testing::Test::HasFailure(); ++i) {
        const ReturnsOf<S> result = state.rollout(rng_);
        check_range(result);
        fast.add(static_cast<double>(result[0]));
        if (options_.rollout_is_uniform) {
          slow.add(static_cast<double>(slow_rollout(state)[0]));
        }
      }
      if (options_.rollout_is_uniform) {
        const double spread = std::max(fast.high, slow.high) - std::min(fast.low, slow.low);
        const double error = std::sqrt((fast.variance() + slow.variance()) / kSamples);
        EXPECT_NEAR(fast.mean(), slow.mean(), 6 * error + 8.0 / kSamples * spread + 1e-6)
            << describe(state);
      }
    }
  }
  struct Mean {
    double count = 0, sum = 0, squares = 0;
    double low = std::numeric_limits<double>::infinity(), high = -low;
    void add(double x) {
      ++count;
      sum += x;
      squares += x * x;
      low = std::min(low, x);
      high = std::max(high, x);
    }
    double mean() const { return sum / count; }
    double variance() const { return std::max(0.0, squares / count - mean() * mean()); }
  };

  void check_undo(const S& last, const std::vector<S>& before, const std::vector<A>& played) {
    if constexpr (HasUndo<S>) {
      S state = last;
      for (size_t i = played.size(); i-- > 0;) {
        state.undo(played[i]);
        ASSERT_EQ(describe(state), describe(before[i])) << "after undo of ply " << i;
      }
    }
  }

  Options options_;
  Random rng_;
  int checked_ = 0;
  std::map<uint64_t, std::string> drawn_of_hash_;
  std::map<std::string, uint64_t> hash_of_position_;
};

template <GameState S>
void check_game(const Options& options = {}) {
  Checker<S>(options).run();
}

// The number of sequences of `depth` actions from `state`; a game that ends sooner has none.
template <GameState S>
uint64_t count_paths(const S& state, int depth) {
  if (depth == 0) {
    return 1;
  }
  if (state.player() == kTerminal) {
    return 0;
  }
  ActionBufferOf<S> actions;
  state.legal(actions);
  if (depth == 1) {
    return actions.size();
  }
  uint64_t count = 0;
  for (const auto& action : actions) {
    S next = state;
    next.apply(action);
    count += count_paths(next, depth - 1);
  }
  return count;
}

}  // namespace mstrain::mcts::conformance
