// A game behind virtual calls: one type that stands for every game, so that a search of it is compiled once (any_search.h) and not
// for each game. A game of one's own that is only known at run time, in C or in Python, comes in here.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "mcts/evaluators.h"
#include "mcts/game.h"

namespace mstrain::mcts {

class AnyGame {
 public:
  static constexpr int kPlayers = 8;  // at most; values of players that a game has not are 0
  static constexpr bool kCompiledOnce = true;

  // What all states of a game have in common.
  struct Facts {
    int players = 2;
    uint32_t max_actions = 0;  // every action is below it
    float min_return = 0;      // the range of returns(); not known where they are equal
    float max_return = 0;
    bool zero_sum = false;
    bool chance = false;
    bool rewards = false;
    bool undo = false;  // and the search is to use it instead of copying
    bool samples = false;
    bool hash = false;
    bool history = false;  // which the hash does not know
    bool information = false;
  };

  // One state of a game. What its facts exclude is never called, and may be left as it is here.
  class State {
   public:
    virtual ~State() = default;
    virtual const Facts& facts() const = 0;
    virtual std::unique_ptr<State> clone() const = 0;
    // Takes over a state of the same game; false where `other` belongs to another one.
    virtual bool assign(const State& other) = 0;
    virtual int player() const = 0;
    virtual void legal(ActionBuffer& out) const = 0;
    virtual void apply(Action action) = 0;
    virtual Returns<kPlayers> returns() const = 0;
    virtual Returns<kPlayers> rollout(Random& rng) const {
      return random_play(AnyGame(clone()), rng);
    }
    virtual void chance(ChanceBuffer& /*out*/) const { lacks("chance()"); }
    virtual Returns<kPlayers> rewards() const { lacks("rewards()"); }
    virtual void undo(Action /*action*/) { lacks("undo()"); }
    virtual Action sample_action(Random& /*rng*/) const { lacks("sample_action()"); }
    virtual uint64_t hash() const { lacks("hash()"); }
    virtual void determinize(int /*player*/, Random& /*rng*/) { lacks("determinize()"); }
    virtual uint64_t information_key(int /*player*/) const { lacks("information_key()"); }
    virtual std::string action_to_string(Action action) const { return std::to_string(action); }
    virtual Action parse_action(std::string_view /*text*/) const { lacks("notation"); }
  };

  AnyGame() = default;
  explicit AnyGame(std::unique_ptr<State> state) : state_(std::move(state)) {}
  AnyGame(const AnyGame& other) : state_(other.state_ ? other.state_->clone() : nullptr) {}
  AnyGame(AnyGame&&) noexcept = default;
  AnyGame& operator=(const AnyGame& other) {
    if (this != &other && !(state_ && other.state_ && state_->assign(*other.state_))) {
      state_ = other.state_ ? other.state_->clone() : nullptr;
    }
    return *this;
  }
  AnyGame& operator=(AnyGame&&) noexcept = default;
  ~AnyGame() = default;

  int player() const { return state_->player(); }
  void legal(ActionBuffer& out) const { state_->legal(out); }
  void apply(Action action) { state_->apply(action); }
  Returns<kPlayers> returns() const { return state_->returns(); }
  Returns<kPlayers> rollout(Random& rng) const { return state_->rollout(rng); }
  void chance(ChanceBuffer& out) const { state_->chance(out); }
  Returns<kPlayers> rewards() const {
    return facts().rewards ? state_->rewards() : Returns<kPlayers>{};
  }
  void undo(Action action) { state_->undo(action); }
  Action sample_action(Random& rng) const { return state_->sample_action(rng); }
  uint64_t hash() const { return state_->hash(); }
  void determinize(int player, Random& rng) { state_->determinize(player, rng); }
  uint64_t information_key(int player) const { return state_->information_key(player); }
  std::string action_to_string(Action action) const { return state_->action_to_string(action); }
  Action parse_action(std::string_view text) const { return state_->parse_action(text); }

  const Facts& facts() const { return state_->facts(); }
  int players() const { return facts().players; }
  uint32_t max_actions() const { return facts().max_actions; }
  float min_return() const { return facts().min_return; }
  float max_return() const { return facts().max_return; }
  bool zero_sum() const { return facts().zero_sum; }
  bool meets_chance() const { return facts().chance; }
  bool pays_rewards() const { return facts().rewards; }
  bool samples_actions() const { return facts().samples; }
  bool prefers_undo() const { return facts().undo; }
  bool has_history() const { return facts().history; }
  const State& state() const { return *state_; }

 private:
  [[noreturn]] static void lacks(const char* what) { fail("game: it has no {}", what); }

  std::unique_ptr<State> state_;
};

// A game of C++ as one of these. Its actions are numbers below S::kMaxActions.
template <GameState S>
requires std::same_as<ActionOf<S>, Action> && HasDenseActions<S>
class AnyStateOf final : public AnyGame::State {
 public:
  explicit AnyStateOf(const S& state) : state_(state) {}

  const AnyGame::Facts& facts() const override {
    static const AnyGame::Facts kFacts = facts_of();
    return kFacts;
  }
  std::unique_ptr<State> clone() const override { return std::make_unique<AnyStateOf>(state_); }
  bool assign(const State& other) override {
    if (&other.facts() != &facts()) {
      return false;
    }
    state_ = static_cast<const AnyStateOf&>(other).state_;
    return true;
  }
  int player() const override { return state_.player(); }
  void legal(ActionBuffer& out) const override { state_.legal(out); }
  void apply(Action action) override { state_.apply(action); }
  Returns<AnyGame::kPlayers> returns() const override { return widen(state_.returns()); }
  Returns<AnyGame::kPlayers> rollout(Random& rng) const override {
    return widen(random_rollout(state_, rng));
  }
  void chance(ChanceBuffer& out) const override {
    if constexpr (HasChance<S>) {
      state_.chance(out);
    }
  }
  Returns<AnyGame::kPlayers> rewards() const override {
    if constexpr (HasRewards<S>) {
      return widen(state_.rewards());
    } else {
      return {};
    }
  }
  void undo(Action action) override {
    if constexpr (HasUndo<S>) {
      state_.undo(action);
    }
  }
  Action sample_action(Random& rng) const override {
    if constexpr (HasSampleAction<S>) {
      return state_.sample_action(rng);
    } else {
      return State::sample_action(rng);
    }
  }
  uint64_t hash() const override {
    if constexpr (HasHash<S>) {
      return state_.hash();
    } else {
      return State::hash();
    }
  }
  void determinize(int player, Random& rng) override {
    if constexpr (HasInformation<S>) {
      state_.determinize(player, rng);
    }
  }
  uint64_t information_key(int player) const override {
    if constexpr (HasInformation<S>) {
      return state_.information_key(player);
    } else {
      return State::information_key(player);
    }
  }
  std::string action_to_string(Action action) const override { return action_text(state_, action); }
  Action parse_action(std::string_view text) const override {
    if constexpr (HasNotation<S>) {
      return state_.parse_action(text);
    } else {
      return State::parse_action(text);
    }
  }
  const S& inside() const { return state_; }

 private:
  static AnyGame::Facts facts_of() {
    static_assert(S::kPlayers <= AnyGame::kPlayers);
    return {.players = S::kPlayers,
            .max_actions = S::kMaxActions,
            .min_return = mcts::min_return<S>(),
            .max_return = mcts::max_return<S>(),
            .zero_sum = is_zero_sum<S>(),
            .chance = HasChance<S>,
            .rewards = HasRewards<S>,
            .undo = mcts::prefers_undo<S>(),
            .samples = HasSampleAction<S>,
            .hash = HasHash<S>,
            .history = mcts::has_history<S>(),
            .information = HasInformation<S>};
  }
  static Returns<AnyGame::kPlayers> widen(const ReturnsOf<S>& values) {
    Returns<AnyGame::kPlayers> out{};
    std::copy(values.begin(), values.end(), out.begin());
    return out;
  }
  S state_;
};

template <GameState S>
AnyGame any_game(const S& state) {
  return AnyGame(std::make_unique<AnyStateOf<S>>(state));
}
// The S that any_game() was given.
template <GameState S>
const S& inside(const AnyGame& game) {
  return static_cast<const AnyStateOf<S>&>(game.state()).inside();
}

}  // namespace mstrain::mcts
