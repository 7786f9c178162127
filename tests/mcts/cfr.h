// The truth about small poker games: an equilibrium by CFR+ (O. Tammelin, "Solving large imperfect information games using
// CFR+", 2014), and what a perfect opponent wins against any given play.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mcts/game.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

// Probabilities of the actions (in the order of legal()) by information_key of the player to move.
using PokerPolicy = std::unordered_map<uint64_t, std::vector<double>>;

// Two players, zero sum, chance listed; every state's information key tells whose it is.
template <GameState S>
class Cfr {
 public:
  void iterate() {
    ++iterations_;
    for (int player = 0; player < 2; ++player) {
      walk(S(), player, 1, 1);
      for (auto& [key, entry] : entries_) {
        for (size_t i = 0; i < entry.regret.size(); ++i) {
          entry.regret[i] = std::max(0.0, entry.regret[i] + entry.change[i]);
          entry.change[i] = 0;
        }
      }
    }
  }
  PokerPolicy average() const {
    PokerPolicy out;
    for (const auto& [key, entry] : entries_) {
      out[key] = normalised(entry.sum);
    }
    return out;
  }

 private:
  struct Entry {
    std::vector<double> regret, change,
        sum;  // change: of this iteration, over all states of the key
  };
  static std::vector<double> normalised(std::vector<double> weights) {
    double total = 0;
    for (const double w : weights) {
      total += w;
    }
    for (double& w : weights) {
      w = total > 0 ? w / total : 1.0 / static_cast<double>(weights.size());
    }
    return weights;
  }

  // Returns the value for `player`; `mine` and `others` are the probabilities to get here by that player's choices, and by
  // everything else.
  double walk(const S& state, int player, double mine, double others) {
    const int mover = state.player();
    if (mover == kTerminal) {
      return static_cast<double>(state.returns()[static_cast<size_t>(player)]);
    }
    if (mover == kChance) {
      ChanceBuffer outcomes;
      state.chance(outcomes);
      double value = 0;
      for (const auto& outcome : outcomes) {
        const auto p = static_cast<double>(outcome.probability);
        S next = state;
        next.apply(outcome.action);
        value += p * walk(next, player, mine, others * p);
      }
      return value;
    }
    const auto actions = actions_of(state);
    Entry& entry = entries_[state.information_key(mover)];
    entry.regret.resize(actions.size());
    entry.change.resize(actions.size());
    entry.sum.resize(actions.size());
    const std::vector<double> now = normalised(entry.regret);
    std::vector<double> values(actions.size());
    double value = 0;
    for (size_t i = 0; i < actions.size(); ++i) {
      S next = state;
      next.apply(actions[i]);
      values[i] = mover == player ? walk(next, player, mine * now[i], others)
                                  : walk(next, player, mine, others * now[i]);
      value += now[i] * values[i];
    }
    if (mover == player) {
      Entry& mine_entry = entries_[state.information_key(mover)];  // the map may have grown
      for (size_t i = 0; i < actions.size(); ++i) {
        mine_entry.change[i] += others * (values[i] - value);
        mine_entry.sum[i] += static_cast<double>(iterations_) * mine * now[i];
      }
    }
    return value;
  }

  std::unordered_map<uint64_t, Entry> entries_;
  int64_t iterations_ = 0;
};

// The first player's expected result where both follow `policy`.
template <GameState S>
double expected_value(const S& state, const PokerPolicy& policy) {
  const int mover = state.player();
  if (mover == kTerminal) {
    return static_cast<double>(state.returns()[0]);
  }
  double value = 0;
  const auto add = [&](ActionOf<S> action, double p) {
    if (p > 0) {
      S next = state;
      next.apply(action);
      value += p * expected_value(next, policy);
    }
  };
  if (mover == kChance) {
    ChanceBuffer outcomes;
    state.chance(outcomes);
    for (const auto& outcome : outcomes) {
      add(outcome.action, static_cast<double>(outcome.probability));
    }
  } else {
    const auto actions = actions_of(state);
    const std::vector<double>& p = policy.at(state.information_key(mover));
    for (size_t i = 0; i < actions.size(); ++i) {
      add(actions[i], p[i]);
    }
  }
  return value;
}

// What `player` gets who knows that the other follows `policy` and answers as well as possible.
template <GameState S>
class BestResponse {
 public:
  BestResponse(const PokerPolicy& policy, int player) : policy_(policy), player_(player) {
    collect(S(), 1);
  }
  double value() { return value(S()); }

 private:
  // Calls f(action, probability) for what others and chance may do.
  template <class F>
  void for_each_other(const S& state, F f) const {
    if (state.player() == kChance) {
      ChanceBuffer outcomes;
      state.chance(outcomes);
      for (const auto& outcome : outcomes) {
        f(outcome.action, static_cast<double>(outcome.probability));
      }
    } else {
      const auto actions = actions_of(state);
      const std::vector<double>& p = policy_.at(state.information_key(state.player()));
      for (size_t i = 0; i < actions.size(); ++i) {
        f(actions[i], p[i]);
      }
    }
  }
  static S after(const S& state, ActionOf<S> action) {
    S next = state;
    next.apply(action);
    return next;
  }
  void collect(const S& state, double reach) {
    if (state.player() == kTerminal) {
      return;
    }
    if (state.player() == player_) {
      states_[state.information_key(player_)].emplace_back(state, reach);
      for (const auto& action : actions_of(state)) {
        collect(after(state, action), reach);
      }
    } else {
      for_each_other(state,
                     [&](auto action, double p) { collect(after(state, action), reach * p); });
    }
  }
  double value(const S& state) {
    if (state.player() == kTerminal) {
      return static_cast<double>(state.returns()[static_cast<size_t>(player_)]);
    }
    if (state.player() == player_) {
      return value(after(state, choice(state.information_key(player_))));
    }
    double sum = 0;
    for_each_other(
        state, [&](auto action, double p) { sum += p > 0 ? p * value(after(state, action)) : 0; });
    return sum;
  }
  ActionOf<S> choice(uint64_t key) {
    if (const auto known = choices_.find(key); known != choices_.end()) {
      return known->second;
    }
    const auto& states = states_.at(key);
    ActionOf<S> best{};
    double best_value = 0;
    bool first = true;
    for (const auto& action : actions_of(states[0].first)) {
      double sum = 0;
      for (const auto& [state, reach] : states) {
        sum += reach > 0 ? reach * value(after(state, action)) : 0;
      }
      if (first || sum > best_value) {
        best = action;
        best_value = sum;
        first = false;
      }
    }
    choices_.emplace(key, best);
    return best;
  }

  const PokerPolicy& policy_;
  int player_;
  std::unordered_map<uint64_t, std::vector<std::pair<S, double>>> states_;
  std::unordered_map<uint64_t, ActionOf<S>> choices_;
};

// The mean of what perfect opponents win from either seat: 0 in an equilibrium.
template <GameState S>
double exploitability(const PokerPolicy& policy) {
  return (BestResponse<S>(policy, 0).value() + BestResponse<S>(policy, 1).value()) / 2;
}

// Calls f(state) once for each information key of the players, with one of the states that have it.
template <GameState S, class F>
void for_each_information(const S& state, std::unordered_map<uint64_t, bool>& seen, const F& f) {
  if (state.player() == kTerminal) {
    return;
  }
  if (state.player() >= 0 && !seen[state.information_key(state.player())]) {
    seen[state.information_key(state.player())] = true;
    f(state);
  }
  for (const auto& action : actions_of(state)) {
    S next = state;
    next.apply(action);
    for_each_information(next, seen, f);
  }
}

}  // namespace mstrain::mcts
