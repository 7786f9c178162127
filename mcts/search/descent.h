// One simulation under way: the path that it took, and what it found at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mcts/eval_batch.h"
#include "mcts/search/arena.h"
#include "mcts/search/config.h"

namespace mstrain::mcts {

// What a shared tree does with an edge while a visit of it is under way: edges with few visits are marked, so that threads
// spread over the leaves; the many visits of the others drown one more; and what happens to the busiest edges is
// gathered by each thread and written now and then, or threads would spend their time passing cache lines.
enum class Care : uint8_t { kMark, kUpdate, kGather };

// No two share a cache line.
template <GameState S>
struct alignas(64) DescentOf {
  using A = ActionOf<S>;
  using Values = ReturnsOf<S>;
  struct Step {
    uint32_t block;
    uint16_t edge;
    Care care = Care::kMark;
  };
  struct Gathered {
    uint32_t block;
    uint32_t edge;
    uint32_t visits;
    double sum;
  };
  // What a batch of simulations under way adds to an edge above it until it is backed up.
  using Mark = Gathered;

  Buffer<Step> path;
  std::optional<S> state;
  uint64_t generation = 0;  // of the root that `state` was copied from; 0: no copy
  Buffer<Values> rewards;   // of each step, where the game pays any
  Buffer<A> moves;          // of each step, where somebody asks
  Random rng;
  ActionBufferOf<S> actions;
  ChanceBufferOf<S> outcomes;
  std::vector<float> priors;
  std::vector<std::pair<int, A>> trace;
  EvalItem<S> item;
  std::vector<Gathered> gathered;  // by this thread, not yet in the tree
  uint32_t gathered_roots = 0;
  uint64_t* origin = nullptr;  // visits of the node where the path begins
  uint32_t above = 0;          // steps from the root to there
  bool claims = false;         // stops at subtrees that one thread works in at a time
  uint32_t entry = 0;          // block of the subtree that it took
  uint32_t entry_visits = 0;
  std::vector<Mark> marks;
  Arena::Chunk chunk;             // memory for what a thread adds to a shared tree,
  Arena::Chunk* memory = &chunk;  // or that of another descent of the same thread
  uint32_t fresh_edges = 0;       // added there and not yet counted in the tree
  bool owns_leaf = false;         // and is to give it a block
  bool exact = false;             // the path itself ends in a terminal state
  Values
      tail{};  // paid, and discount due, on a way below the last step that the tree has no room for
  float tail_discount = 1;
  std::vector<uint32_t> order;  // scratch of expansion
  std::vector<uint32_t>
      played;  // for RAVE: by player and action, the number of the descent that last had it
  uint32_t descent = 0;
  SearchCounters counters;
};

}  // namespace mstrain::mcts
