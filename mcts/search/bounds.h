// Proven values: each edge carries a lower and an upper bound of what its child is worth (Winands, Bjornsson, Saito,
// "Monte-Carlo tree search solver", 2008; Cazenave and Saffidine, "Score bounded Monte-Carlo tree search", 2010).
// With one player or two whose results sum to zero the bounds are those of the block's player; otherwise each player has a
// pair, and interval arithmetic over the choices that the mover may still make (max^n) joins them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mcts/game.h"
#include "mcts/search/access.h"
#include "mcts/search/block.h"

namespace mstrain::mcts {

template <class S>
constexpr bool is_zero_sum() {
  if constexpr (requires { S::kZeroSum; }) {
    return S::kZeroSum;
  } else {
    return S::kPlayers == 2;
  }
}

template <class S>
struct SolverBounds {
  static constexpr bool kSimple = S::kPlayers == 1 || (S::kPlayers == 2 && is_zero_sum<S>());
  static constexpr int kPairs = kSimple ? 1 : S::kPlayers;
  static constexpr uint32_t kColumns = 2 * kPairs;

  // low[i], high[i] of player i; of the block's player alone where kSimple.
  struct Bounds {
    std::array<float, kPairs> low;
    std::array<float, kPairs> high;
    bool solved(int player) const {
      const int i = kSimple ? 0 : player;
      return low[i] >= high[i];
    }
  };

  static uint32_t pair_of(int player) {
    return kSimple ? 0U : static_cast<uint32_t>(std::max(player, 0));
  }
  static float* low(const Block& b, const BlockFormat& f, uint32_t pair) {
    return b.bound_column(f, 2 * pair);
  }
  static float* high(const Block& b, const BlockFormat& f, uint32_t pair) {
    return b.bound_column(f, 2 * pair + 1);
  }

  static void clear(const Block& b, const BlockFormat& f, uint32_t begin, uint32_t end) {
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      std::fill(low(b, f, pair) + begin, low(b, f, pair) + end, min_return<S>());
      std::fill(high(b, f, pair) + begin, high(b, f, pair) + end, max_return<S>());
    }
  }

  // The largest lower bound of the mover: edges that cannot beat it are not followed. Minus infinity where every value
  // is still possible for all.
  template <Access kAccess>
  static float floor(const Block& b, const BlockFormat& f, uint32_t open) {
    const float* lows = low(b, f, pair_of(b.header().player));
    float best = min_return<S>();
    for (uint32_t i = 0; i < open; ++i) {
      best = std::max(best, read<kAccess>(lows + i));
    }
    return best;
  }

  // What a block proves about its own state.
  template <Access kAccess = Access::kPlain>
  static Bounds bounds(const Block& b, const BlockFormat& f) {
    const int player = b.header().player;
    const uint32_t count = b.header().count;
    const uint32_t own = pair_of(player);
    Bounds result;
    result.low.fill(player < 0 ? max_return<S>() : min_return<S>());
    result.high.fill(min_return<S>());
    if (player >= 0) {
      for (uint32_t i = 0; i < count; ++i) {
        result.low[own] = std::max(result.low[own], read<kAccess>(low(b, f, own) + i));
        result.high[own] = std::max(result.high[own], read<kAccess>(high(b, f, own) + i));
      }
    }
    if (!kSimple && player >= 0 && result.low[own] >= result.high[own]) {
      // Of several best choices the mover takes the first one that is proven for everybody.
      for (uint32_t i = 0; i < count; ++i) {
        Bounds edge;
        bool proven = read<kAccess>(low(b, f, own) + i) >= result.low[own];
        for (uint32_t pair = 0; pair < kPairs; ++pair) {
          edge.low[pair] = read<kAccess>(low(b, f, pair) + i);
          edge.high[pair] = read<kAccess>(high(b, f, pair) + i);
          proven = proven && edge.low[pair] >= edge.high[pair];
        }
        if (proven) {
          return edge;
        }
      }
    }
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      if (player >= 0 && pair == own) {
        continue;
      }
      result.low[pair] = max_return<S>();
      for (uint32_t i = 0; i < count; ++i) {
        if (player < 0 || read<kAccess>(high(b, f, own) + i) >= result.low[own]) {
          result.low[pair] = std::min(result.low[pair], read<kAccess>(low(b, f, pair) + i));
          result.high[pair] = std::max(result.high[pair], read<kAccess>(high(b, f, pair) + i));
        }
      }
    }
    return result;
  }

  // Tightens an edge of a block whose player is `player` by what is known of its child, whose player is `child_player`.
  // False where that says nothing new.
  template <Access kAccess>
  static bool tighten(const Block& b, const BlockFormat& f, uint32_t edge, const Bounds& child,
                      int child_player) {
    const bool turn =
        kSimple && std::max(static_cast<int>(b.header().player), 0) != std::max(child_player, 0);
    bool changed = false;
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      const float new_low = turn ? -child.high[pair] : child.low[pair];
      const float new_high = turn ? -child.low[pair] : child.high[pair];
      float* at_low = low(b, f, pair) + edge;
      float* at_high = high(b, f, pair) + edge;
      if (new_low > read<kAccess>(at_low)) {
        write<kAccess>(at_low, new_low);
        changed = true;
      }
      if (new_high < read<kAccess>(at_high)) {
        write<kAccess>(at_high, new_high);
        changed = true;
      }
    }
    return changed;
  }

  // A terminal state: every bound is the result.
  static Bounds exact(const ReturnsOf<S>& values, int player) {
    Bounds result;
    for (int pair = 0; pair < kPairs; ++pair) {
      result.low[pair] = result.high[pair] = values[kSimple ? std::max(player, 0) : pair];
    }
    return result;
  }
};

}  // namespace mstrain::mcts
