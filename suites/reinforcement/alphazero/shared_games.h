// Games that the ranks of a run play together, each of them some. `ranks` null: there is one, which plays all.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/comm/mesh.h"
#include "suites/reinforcement/alphazero/replay.h"

namespace mstrain::alphazero {

// Neighbours among `count` things that are shared out: the parts of all ranks, in their order, are all of them.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
  int64_t end() const { return first + count; }
};
Share share_of(const Ranks* ranks, int64_t count);

// Every rank calls it with what it has to play, however long that takes. Throws Stopped on all of them where any one threw it.
void play_together(Ranks* ranks, std::string_view what, const std::function<void()>& play);

// Those of all ranks, one rank's after the other.
std::vector<LearnedGame> games_of_all(Ranks* ranks, std::vector<LearnedGame> own);

}  // namespace mstrain::alphazero
