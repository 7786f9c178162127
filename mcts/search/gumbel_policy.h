// Gumbel search in a tree over a game: which root edge is due under sequential halving, and the deterministic choice below.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mcts/random.h"
#include "mcts/search/block.h"
#include "mcts/search/config.h"
#include "mcts/search/gumbel.h"

namespace mstrain::mcts {

// Policies whose root samples actions without replacement and whose inner nodes follow the improved policy. It wants
// an evaluator with priors; simulations should be known in advance (Budget::simulations).
class GumbelRoot {
 public:
  bool planned() const { return !gumbel_.empty(); }
  void clear() { gumbel_.clear(); }
  // Draws for the edges of the root block and plans `simulations`.
  void plan(const Block& root, const BlockFormat& format, const SearchConfig& config,
            int64_t simulations, Random& rng);
  // The edge to follow now; counts it. Throws Error without a plan.
  uint32_t choose(const Block& root, const BlockFormat& format);
  // A descent along that edge was given up: its turn comes again.
  void take_back(uint32_t edge) {
    --visits_[edge];
    --next_;
  }
  // The action to play: among the most visited of this run the best by gumbel + logit + sigma(q).
  uint32_t final_edge(const Block& root, const BlockFormat& format) const;
  // The improved policy pi' of the root, for all edges.
  std::vector<float> policy(const Block& root, const BlockFormat& format) const;

 private:
  // logit + sigma(completed q) of all edges.
  std::vector<float> improved_logits(const Block& root, const BlockFormat& format) const;

  GumbelScale scale_;
  std::vector<float> gumbel_;
  std::vector<float> logits_;
  std::vector<uint32_t> considered_;  // by gumbel + logit, descending
  std::vector<uint32_t> visits_;      // of this run, for all edges
  std::vector<uint32_t> schedule_;
  size_t next_ = 0;
};

// argmax of pi' - N / (1 + sum N). Edges stand in the order of their priors, so unvisited ones need one look. Returns
// `opened` for the next unvisited edge.
uint32_t choose_improved(const Block& block, const BlockFormat& format, const GumbelScale& scale);

}  // namespace mstrain::mcts
