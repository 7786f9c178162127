// A game behind virtual calls: what the policies that are chosen by name search, so that each of them is compiled once for a
// kind of game and not once for every game. The default policy searches the game itself.
#pragma once

#include <memory>
#include <utility>

#include "mcts/chance.h"
#include "mcts/evaluators.h"
#include "mcts/game.h"
#include "mcts/registry.h"

namespace mstrain::mcts::play {

// One or two players; with kPays the game has rewards on the way and chance. Results lie between -1 (one player: 0) and 1.
template <int kN, bool kPays>
class BoxedGame {
 public:
  static constexpr int kPlayers = kN;
  static constexpr uint32_t kMaxActions = 4096;
  static constexpr float kMinReturn = kN == 1 ? 0 : -1;

  // The box that fits S.
  template <class S>
  static constexpr bool fits() {
    return S::kPlayers == kN && HasRewards<S> == kPays && S::kMaxActions <= kMaxActions &&
           std::is_same_v<ActionOf<S>, Action> && (kPays || min_return<S>() == kMinReturn) &&
           (kPays || max_return<S>() == 1);
  }

  BoxedGame() = default;
  template <class S>
  explicit BoxedGame(const S& state) : inside_(std::make_unique<Inside<S>>(state)) {}
  BoxedGame(const BoxedGame& other) : inside_(other.inside_ ? other.inside_->clone() : nullptr) {}
  BoxedGame(BoxedGame&&) noexcept = default;
  BoxedGame& operator=(const BoxedGame& other) {
    if (this == &other) {
      return *this;
    }
    if (!inside_ || !other.inside_ || !inside_->assign(*other.inside_)) {
      inside_ = other.inside_ ? other.inside_->clone() : nullptr;
    }
    return *this;
  }
  BoxedGame& operator=(BoxedGame&&) noexcept = default;
  ~BoxedGame() = default;

  int player() const { return inside_->player(); }
  void legal(ActionBuffer& out) const { inside_->legal(out); }
  void apply(Action action) { inside_->apply(action); }
  Returns<kN> returns() const { return inside_->returns(); }
  Returns<kN> rewards() const requires kPays { return inside_->rewards(); }
  void chance(ChanceBuffer& out) const requires kPays { inside_->chance(out); }
  Returns<kN> rollout(Random& rng) const { return inside_->rollout(rng); }
  template <class S>
  const S& as() const {
    return static_cast<const Inside<S>&>(*inside_).state;
  }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual std::unique_ptr<Any> clone() const = 0;
    virtual bool assign(const Any& other) = 0;  // false where the other is of another type
    virtual int player() const = 0;
    virtual void legal(ActionBuffer& out) const = 0;
    virtual void apply(Action action) = 0;
    virtual Returns<kN> returns() const = 0;
    virtual Returns<kN> rewards() const = 0;
    virtual void chance(ChanceBuffer& out) const = 0;
    virtual Returns<kN> rollout(Random& rng) const = 0;
  };
  template <class S>
  struct Inside final : Any {
    explicit Inside(const S& from) : state(from) {}
    std::unique_ptr<Any> clone() const override { return std::make_unique<Inside>(state); }
    bool assign(const Any& other) override {
      const auto* same = dynamic_cast<const Inside*>(&other);
      if (same != nullptr) {
        state = same->state;
      }
      return same != nullptr;
    }
    int player() const override { return state.player(); }
    void legal(ActionBuffer& out) const override { state.legal(out); }
    void apply(Action action) override { state.apply(action); }
    Returns<kN> returns() const override { return state.returns(); }
    Returns<kN> rewards() const override {
      if constexpr (HasRewards<S>) {
        return state.rewards();
      } else {
        return {};
      }
    }
    void chance(ChanceBuffer& out) const override {
      if constexpr (HasChance<S>) {
        state.chance(out);
      }
    }
    Returns<kN> rollout(Random& rng) const override { return random_rollout(state, rng); }
    S state;
  };
  std::unique_ptr<Any> inside_;
};

using TwoPlayerBox = BoxedGame<2, false>;
using PuzzleBox = BoxedGame<1, false>;
using PayingBox = BoxedGame<1, true>;

// Games with hidden cards are not searched in boxes.
template <class S>
struct BoxFor {
  using type = std::conditional_t<S::kPlayers == 2, TwoPlayerBox,
                                  std::conditional_t<HasRewards<S>, PayingBox, PuzzleBox>>;
  static_assert(type::template fits<S>() || HasInformation<S>);
};

// Searches of boxes by name; each kind of box is compiled in a file of its own.
template <class Box>
const SearchRegistry<Box>& boxed_registry() {
  static const SearchRegistry<Box> kRegistry;
  return kRegistry;
}
extern template const SearchRegistry<TwoPlayerBox>& boxed_registry<TwoPlayerBox>();
extern template const SearchRegistry<PuzzleBox>& boxed_registry<PuzzleBox>();
extern template const SearchRegistry<PayingBox>& boxed_registry<PayingBox>();

}  // namespace mstrain::mcts::play
