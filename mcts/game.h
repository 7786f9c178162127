// What a game is to the search: a copyable value with five members. Everything else is optional and found at compile time.
//
//   struct Nim {                                               // take 1 or 2 stones; who takes the last one wins
//     static constexpr int kPlayers = 2;
//     int stones = 10, mover = 0;
//     int player() const { return stones == 0 ? kTerminal : mover; }
//     void legal(ActionBuffer& out) const { out.push(1); if (stones > 1) out.push(2); }
//     void apply(Action a) { stones -= static_cast<int>(a); mover = 1 - mover; }
//     Returns<2> returns() const { return mover == 1 ? Returns<2>{1, -1} : Returns<2>{-1, 1}; }
//   };
//
// A state may throw from any member; the search passes the exception on and stays usable after reset().
// Members are called by several threads at once on different copies, never on the same one unless const.
//
// Optional members, each with the concept below that names it:
//   using Action = ...                      another action type: trivially copyable, 8 bytes at most, with ==
//   static constexpr uint32_t kMaxActions   every action is below it (dense ids: tables, network heads, 2-byte storage)
//   static constexpr std::string_view kName
//   static constexpr float kMinReturn, kMaxReturn   range of returns() (default -1, 1); the solver takes them as loss and win, and
//                                           a result outside is an Error
//   static constexpr bool kZeroSum          whether returns() sum to zero (default: true for two players): the solver then takes
//                                           one's loss for the other's win
//   void undo(Action a)                     takes back the last apply(a); with kPreferUndo = true the search uses it
//                                           instead of copying (big states)
//   uint64_t hash() const                   equal for equal positions (with the player to move): transpositions, cache
//   static constexpr bool kHistory = true   earlier positions count too, of which hash() says nothing (superko): no graphs
//   void chance(ChanceBuffer& out) const    appends outcomes with probabilities that sum to 1 where player() == kChance
//   Action sample_chance(Random& rng) const a draw from them, where listing is slow
//   Returns<kPlayers> rewards() const       what the last apply paid; a game's result is then the (discounted) sum of
//                                           rewards, plus returns() at the end
//   Returns<kPlayers> rollout(Random& rng) const   result of random play from here (not called on terminal states)
//   Action sample_action(Random& rng) const continuous or huge sets: one legal action (progressive widening calls it)
//   int kObservationSize; void observe(int player, std::span<float> out) const    network input, written whole
//   static constexpr std::array<int, 3> kObservationShape   planes, rows and columns of it, where the observation is a board
//   static constexpr uint32_t kSymbols; void cells(std::span<uint8_t> out) const; static S from_cells(std::span<const uint8_t> cells)
//                                           where a board is all that there is: which symbol, below kSymbols, stands on each cell of
//                                           kObservationShape, row by row, and the position in which player 0 is to move (or that is over). observe() is
//                                           then one-hot: in plane s those cells are 1 that have symbol s. For tables of values (n-tuple networks)
//   void determinize(int player, Random& rng)      replaces what `player` cannot know by a sample that fits what it saw
//   uint64_t information_key(int player) const     equal for states that `player` cannot tell apart
//   std::string action_to_string(Action a) const; Action parse_action(std::string_view text) const   the usual notation;
//                                           parse_action throws Error where the text names no legal action
//   std::string position() const; static S from_position(std::string_view text)   a whole position, both ways; throws Error
//   std::string draw() const                the board for a terminal, several lines
//   int kSymmetries; S symmetry(int k) const; static Action symmetry_action(int k, Action a)   0 is the identity;
//                                           symmetry(k) of apply(a) equals apply(symmetry_action(k, a)) of symmetry(k)
//
// A type that stands for many games (any_game.h) knows some of this at run time alone. Each may be a member of the state instead,
// equal for all states of a search: int players() (kPlayers at most), uint32_t max_actions(), float min_return(), max_return(),
// bool zero_sum(), meets_chance(), pays_rewards(), samples_actions(), prefers_undo(), has_history().
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mcts/random.h"

namespace mstrain::mcts {

using Action = uint32_t;

// What player() may say instead of 0..kPlayers-1.
inline constexpr int kChance = -1;
inline constexpr int kTerminal = -2;

// One number for each player.
template <int kPlayers>
using Returns = std::array<float, kPlayers>;

// A growing list that keeps its memory: the caller clears it, the game appends.
template <class T>
class Buffer {
 public:
  void push(const T& item) {
    if (size_ == items_.size()) [[unlikely]] {
      items_.resize(size_ < 32 ? 64 : size_ * 2);
    }
    items_[size_++] = item;
  }
  void clear() { size_ = 0; }
  void resize(size_t size) {  // new elements are unspecified
    if (size > items_.size()) {
      items_.resize(size);
    }
    size_ = size;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }
  T* data() { return items_.data(); }
  T* begin() { return items_.data(); }
  T* end() { return items_.data() + size_; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + size_; }
  std::span<const T> span() const { return {items_.data(), size_}; }

 private:
  std::vector<T> items_;
  size_t size_ = 0;
};

template <class A>
struct ChanceOutcome {
  A action{};
  float probability = 0;
};

using ActionBuffer = Buffer<Action>;
using ChanceBuffer = Buffer<ChanceOutcome<Action>>;

namespace detail {
template <class S>
struct ActionType {
  using type = Action;
};
template <class S>
requires requires { typename S::Action; }
struct ActionType<S> {
  using type = typename S::Action;
};
}  // namespace detail

template <class S>
using ActionOf = typename detail::ActionType<S>::type;
template <class S>
using ActionBufferOf = Buffer<ActionOf<S>>;
template <class S>
using ChanceBufferOf = Buffer<ChanceOutcome<ActionOf<S>>>;
template <class S>
using ReturnsOf = Returns<S::kPlayers>;

template <class S>
concept GameState = std::copyable<S> && std::equality_comparable<ActionOf<S>> &&
                        std::is_trivially_copyable_v<ActionOf<S>> && sizeof(ActionOf<S>) <= 8 &&
                    (S::kPlayers >= 1) &&
                    requires(S s, const S c, ActionBufferOf<S>& out, ActionOf<S> a) {
  { c.player() } -> std::convertible_to<int>;
  c.legal(out);
  s.apply(a);
  { c.returns() } -> std::same_as<ReturnsOf<S>>;
};

template <class S>
concept HasDenseActions = requires {
  { S::kMaxActions } -> std::convertible_to<uint32_t>;
};
// The same number, where it is known at run time alone; equal for all states of a search.
template <class S>
concept HasCountedActions = requires(const S s) {
  { s.max_actions() } -> std::convertible_to<uint32_t>;
};
template <class S>
concept NumbersActions = HasDenseActions<S> || HasCountedActions<S>;
template <NumbersActions S>
uint32_t max_actions_of(const S& state) {
  if constexpr (HasDenseActions<S>) {
    return S::kMaxActions;
  } else {
    return state.max_actions();
  }
}
// A game behind virtual calls: its searches are compiled once, and so ask every evaluator behind a function.
template <class S>
concept CompiledOnce = requires {
  requires S::kCompiledOnce;
};
template <class S>
concept HasUndo = requires(S s, ActionOf<S> a) {
  s.undo(a);
};
template <class S>
concept HasHash = requires(const S s) {
  { s.hash() } -> std::same_as<uint64_t>;
};
template <class S>
concept HasChance = requires(const S s, ChanceBufferOf<S>& out) {
  s.chance(out);
};
template <class S>
concept HasSampleChance = requires(const S s, Random& rng) {
  { s.sample_chance(rng) } -> std::same_as<ActionOf<S>>;
};
// Whether games from `state` on may meet chance.
template <class S>
bool meets_chance(const S& state) {
  if constexpr (requires {
                  { state.meets_chance() } -> std::same_as<bool>;
                }) {
    return state.meets_chance();
  } else {
    return HasChance<S> || HasSampleChance<S>;
  }
}
template <class S>
concept HasRewards = requires(const S s) {
  { s.rewards() } -> std::same_as<ReturnsOf<S>>;
};
template <class S>
concept HasRollout = requires(const S s, Random& rng) {
  { s.rollout(rng) } -> std::same_as<ReturnsOf<S>>;
};
template <class S>
concept HasSampleAction = requires(const S s, Random& rng) {
  { s.sample_action(rng) } -> std::same_as<ActionOf<S>>;
};
template <class S>
concept HasObserve = requires(const S s, std::span<float> out) {
  { S::kObservationSize } -> std::convertible_to<int>;
  s.observe(0, out);
};
template <class S>
concept HasCells = HasObserve<S> && requires(const S s, std::span<uint8_t> out) {
  { S::kSymbols } -> std::convertible_to<uint32_t>;
  s.cells(out);
  { S::from_cells(std::span<const uint8_t>(out)) } -> std::same_as<S>;
};
template <class S>
concept HasInformation = requires(S s, const S c, Random& rng) {
  s.determinize(0, rng);
  { c.information_key(0) } -> std::same_as<uint64_t>;
};
template <class S>
concept HasNotation = requires(const S s, ActionOf<S> a, std::string_view text) {
  { s.action_to_string(a) } -> std::convertible_to<std::string>;
  { s.parse_action(text) } -> std::same_as<ActionOf<S>>;
};
template <class S>
concept HasPosition = requires(const S s, std::string_view text) {
  { s.position() } -> std::convertible_to<std::string>;
  { S::from_position(text) } -> std::same_as<S>;
};
template <class S>
concept HasDraw = requires(const S s) {
  { s.draw() } -> std::convertible_to<std::string>;
};
template <class S>
concept HasSymmetry = requires(const S s, ActionOf<S> a) {
  { S::kSymmetries } -> std::convertible_to<int>;
  { s.symmetry(0) } -> std::same_as<S>;
  { S::symmetry_action(0, a) } -> std::same_as<ActionOf<S>>;
};

// True where the search should apply and undo instead of copying the root for each simulation.
template <class S>
constexpr bool prefers_undo() {
  if constexpr (HasUndo<S> && requires { S::kPreferUndo; }) {
    return S::kPreferUndo;
  } else {
    return false;
  }
}

// True where that is for the state to say.
template <class S>
concept MayPreferUndo = HasUndo<S> && requires(const S s) {
  { s.prefers_undo() } -> std::same_as<bool>;
};
template <class S>
bool prefers_undo(const S& state) {
  if constexpr (MayPreferUndo<S>) {
    return state.prefers_undo();
  } else {
    return prefers_undo<S>();
  }
}

template <class S>
bool pays_rewards(const S& state) {
  if constexpr (requires {
                  { state.pays_rewards() } -> std::same_as<bool>;
                }) {
    return state.pays_rewards();
  } else {
    return HasRewards<S>;
  }
}

template <class S>
bool samples_actions(const S& state) {
  if constexpr (requires {
                  { state.samples_actions() } -> std::same_as<bool>;
                }) {
    return state.samples_actions();
  } else {
    return HasSampleAction<S>;
  }
}

template <class S>
constexpr bool has_history() {
  if constexpr (requires { S::kHistory; }) {
    return S::kHistory;
  } else {
    return false;
  }
}

template <class S>
bool has_history(const S& state) {
  if constexpr (requires {
                  { state.has_history() } -> std::same_as<bool>;
                }) {
    return state.has_history();
  } else {
    return has_history<S>();
  }
}

template <class S>
concept CountsPlayers = requires(const S s) {
  { s.players() } -> std::convertible_to<int>;
};
template <class S>
int players_of(const S& state) {
  if constexpr (CountsPlayers<S>) {
    return state.players();
  } else {
    return S::kPlayers;
  }
}

template <class S>
constexpr float min_return() {
  if constexpr (requires { S::kMinReturn; }) {
    return S::kMinReturn;
  } else {
    return -1;
  }
}

template <class S>
constexpr float max_return() {
  if constexpr (requires { S::kMaxReturn; }) {
    return S::kMaxReturn;
  } else {
    return 1;
  }
}

template <class S>
float min_return(const S& state) {
  if constexpr (requires {
                  { state.min_return() } -> std::same_as<float>;
                }) {
    return state.min_return();
  } else {
    return min_return<S>();
  }
}

template <class S>
float max_return(const S& state) {
  if constexpr (requires {
                  { state.max_return() } -> std::same_as<float>;
                }) {
    return state.max_return();
  } else {
    return max_return<S>();
  }
}

template <class S>
constexpr bool is_zero_sum() {
  if constexpr (requires { S::kZeroSum; }) {
    return S::kZeroSum;
  } else {
    return S::kPlayers == 2;
  }
}

template <class S>
bool is_zero_sum(const S& state) {
  if constexpr (requires {
                  { state.zero_sum() } -> std::same_as<bool>;
                }) {
    return state.zero_sum();
  } else {
    return is_zero_sum<S>();
  }
}

// Actions are written in the game's notation where it has one, as numbers otherwise.
template <class S>
std::string action_text(const S& state, ActionOf<S> action) {
  if constexpr (HasNotation<S>) {
    return state.action_to_string(action);
  } else if constexpr (std::is_arithmetic_v<ActionOf<S>>) {
    return std::to_string(action);
  } else {
    return "?";
  }
}

}  // namespace mstrain::mcts
