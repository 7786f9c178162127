// Proven values: each edge carries a lower and an upper bound of what its child is worth (Winands, Bjornsson, Saito,
// "Monte-Carlo tree search solver", 2008; Cazenave and Saffidine, "Score bounded Monte-Carlo tree search", 2010).
// With one player or two whose results sum to zero the bounds are those of the block's player; otherwise each player has a
// pair, and interval arithmetic over the choices that the mover may still make (max^n) joins them. Bounds are read and written as if
// threads shared the tree, which costs nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mcts/game.h"
#include "mcts/search/access.h"
#include "mcts/search/block.h"

namespace mstrain::mcts {

template <class S>
class SolverBounds {
 public:
  // low[i], high[i] of player i; of the block's player alone where simple().
  struct Bounds {
    std::array<float, S::kPlayers> low;
    std::array<float, S::kPlayers> high;
  };

  SolverBounds() = default;
  explicit SolverBounds(const S& root)
      : least_(min_return(root)),
        most_(max_return(root)),
        players_(players_of(root)),
        simple_(players_ == 1 || (players_ == 2 && is_zero_sum(root))) {}

  float least() const { return least_; }
  float most() const { return most_; }
  uint32_t columns() const { return 2 * pairs(); }
  uint32_t pair_of(int player) const {
    return simple() ? 0U : static_cast<uint32_t>(std::max(player, 0));
  }
  bool solved(const Bounds& bounds, int player) const {
    return bounds.low[pair_of(player)] >= bounds.high[pair_of(player)];
  }
  static float* low(const Block& b, const BlockFormat& f, uint32_t pair) {
    return b.bound_column(f, 2 * pair);
  }
  static float* high(const Block& b, const BlockFormat& f, uint32_t pair) {
    return b.bound_column(f, 2 * pair + 1);
  }

  void clear(const Block& b, const BlockFormat& f, uint32_t begin, uint32_t end) const {
    for (uint32_t pair = 0; pair < pairs(); ++pair) {
      std::fill(low(b, f, pair) + begin, low(b, f, pair) + end, least_);
      std::fill(high(b, f, pair) + begin, high(b, f, pair) + end, most_);
    }
  }

  // The largest lower bound of the mover: edges that cannot beat it are not followed. Minus infinity where every value
  // is still possible for all.
  float floor(const Block& b, const BlockFormat& f, uint32_t open) const {
    const float* lows = low(b, f, pair_of(b.header().player));
    float best = least_;
    for (uint32_t i = 0; i < open; ++i) {
      best = std::max(best, read<Access::kShared>(lows + i));
    }
    return best;
  }

  // What a block proves about its own state.
  Bounds bounds(const Block& b, const BlockFormat& f) const {
    const int player = b.header().player;
    const uint32_t count = b.header().count;
    const uint32_t own = pair_of(player);
    Bounds result;
    result.low.fill(player < 0 ? most_ : least_);
    result.high.fill(least_);
    if (player >= 0) {
      for (uint32_t i = 0; i < count; ++i) {
        result.low[own] = std::max(result.low[own], read<Access::kShared>(low(b, f, own) + i));
        result.high[own] = std::max(result.high[own], read<Access::kShared>(high(b, f, own) + i));
      }
    }
    if (!simple() && player >= 0 && result.low[own] >= result.high[own]) {
      // Of several best choices the mover takes the first one that is proven for everybody.
      for (uint32_t i = 0; i < count; ++i) {
        Bounds edge;
        bool proven = read<Access::kShared>(low(b, f, own) + i) >= result.low[own];
        for (uint32_t pair = 0; pair < pairs(); ++pair) {
          edge.low[pair] = read<Access::kShared>(low(b, f, pair) + i);
          edge.high[pair] = read<Access::kShared>(high(b, f, pair) + i);
          proven = proven && edge.low[pair] >= edge.high[pair];
        }
        if (proven) {
          return edge;
        }
      }
    }
    for (uint32_t pair = 0; pair < pairs(); ++pair) {
      if (player >= 0 && pair == own) {
        continue;
      }
      result.low[pair] = most_;
      for (uint32_t i = 0; i < count; ++i) {
        if (player < 0 || read<Access::kShared>(high(b, f, own) + i) >= result.low[own]) {
          result.low[pair] = std::min(result.low[pair], read<Access::kShared>(low(b, f, pair) + i));
          result.high[pair] =
              std::max(result.high[pair], read<Access::kShared>(high(b, f, pair) + i));
        }
      }
    }
    return result;
  }

  // Tightens an edge of a block whose player is `player` by what is known of its child, whose player is `child_player`.
  // False where that says nothing new.
  bool tighten(const Block& b, const BlockFormat& f, uint32_t edge, const Bounds& child,
               int child_player) const {
    const bool turn =
        simple() && std::max(static_cast<int>(b.header().player), 0) != std::max(child_player, 0);
    bool changed = false;
    for (uint32_t pair = 0; pair < pairs(); ++pair) {
      const float new_low = turn ? -child.high[pair] : child.low[pair];
      const float new_high = turn ? -child.low[pair] : child.high[pair];
      float* at_low = low(b, f, pair) + edge;
      float* at_high = high(b, f, pair) + edge;
      if (new_low > read<Access::kShared>(at_low)) {
        write<Access::kShared>(at_low, new_low);
        changed = true;
      }
      if (new_high < read<Access::kShared>(at_high)) {
        write<Access::kShared>(at_high, new_high);
        changed = true;
      }
    }
    return changed;
  }

  // A terminal state: every bound is the result.
  Bounds exact(const ReturnsOf<S>& values, int player) const {
    Bounds result;
    for (uint32_t pair = 0; pair < pairs(); ++pair) {
      result.low[pair] = result.high[pair] = values[simple() ? std::max(player, 0) : pair];
    }
    return result;
  }

 private:
  bool simple() const {
    if constexpr (CountsPlayers<S>) {
      return simple_;
    } else {
      return S::kPlayers == 1 || (S::kPlayers == 2 && is_zero_sum<S>());
    }
  }
  uint32_t pairs() const { return simple() ? 1 : static_cast<uint32_t>(players_); }

  float least_ = -1;
  float most_ = 1;
  int players_ = S::kPlayers;
  bool simple_ = false;
};

}  // namespace mstrain::mcts
