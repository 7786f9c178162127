// One simulation under way: the path that it took, and what it found at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mcts/eval_batch.h"
#include "mcts/search/tree_blocks.h"

namespace mstrain::mcts {

// No two share a cache line.
template <GameState S>
struct alignas(64) DescentOf : DescentPath {
  using A = ActionOf<S>;
  using Values = ReturnsOf<S>;
  std::optional<S> state;
  uint64_t generation = 0;  // of the root that `state` was copied from; 0: no copy
  Buffer<float> visits;     // of each node of the path, the last backup included
  Buffer<float> weights;    // Select::weight() of them
  Buffer<Values> rewards;   // of each step, where the game pays any
  Buffer<A> moves;          // of each step, where somebody asks
  Random rng;
  ActionBufferOf<S> actions;
  ChanceBufferOf<S> outcomes;
  std::vector<float> priors;
  std::vector<std::pair<int, A>> trace;
  EvalItem<S> item;
  Values
      tail{};  // paid, and discount due, on a way below the last step that the tree has no room for
  float tail_discount = 1;
  std::vector<uint32_t> order;  // scratch of expansion
  std::vector<uint32_t>
      played;  // for RAVE: by player and action, the number of the descent that last had it
};

}  // namespace mstrain::mcts
