// Drawing an outcome of a chance state.
#pragma once

#include "core/base/error.h"
#include "mcts/game.h"

namespace mstrain::mcts {

// A chance outcome by the game's own draw, or from its list; `place` then receives its index there.
// `outcomes` is scratch. Throws Error where the game has neither, or lists nothing.
template <GameState S>
ActionOf<S> draw_chance(const S& state, ChanceBufferOf<S>& outcomes, Random& rng,
                        uint32_t* place = nullptr) {
  if constexpr (HasSampleChance<S>) {
    return state.sample_chance(rng);
  } else if constexpr (HasChance<S>) {
    outcomes.clear();
    state.chance(outcomes);
    check(!outcomes.empty(), "game: a chance state has no outcomes");
    double draw = rng.uniform();
    uint32_t i = 0;
    while (i + 1 < outcomes.size() && (draw -= static_cast<double>(outcomes[i].probability)) >= 0) {
      ++i;
    }
    if (place != nullptr) {
      *place = i;
    }
    return outcomes[i].action;
  } else {
    fail("game: player() is kChance, but there is no chance()");
  }
}

}  // namespace mstrain::mcts
