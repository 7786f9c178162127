// What a Search answers. Included by search.h.
#pragma once

#include "mcts/search/search.h"

namespace mstrain::mcts {

template <GameState S, class P>
SearchCounters Search<S, P>::counters() const {
  SearchCounters sum = extra_;
  for (const auto& d : descents_) {
    const SearchCounters& one = d->counters;
    sum.simulations += one.simulations;
    sum.evaluations += one.evaluations;
    sum.batches += one.batches;
    sum.collisions += one.collisions;
    sum.expansions += one.expansions;
    sum.prunings += one.prunings;
    sum.depth_sum += one.depth_sum;
    sum.max_depth = std::max(sum.max_depth, one.max_depth);
  }
  return sum;
}

template <GameState S, class P>
typename Search<S, P>::Result Search<S, P>::result() const {
  const Tree<S, P>& first = *trees_[0];
  check(first.has_root(), "search: result() without a root");
  Result result;
  result.counters = counters();
  result.stop = stop_;
  result.edges = first.root_edges();
  result.proven = first.root_solved();
  result.value = first.root_value();
  const size_t own_edges = result.edges.size();
  for (const auto& tree : trees_) {
    result.nodes += tree->count_nodes();
    result.tree_bytes += tree->used_bytes() + tree->total_bytes();
  }
  if (trees_.size() > 1) {
    merge_trees(result);
  }
  const std::vector<FinalEdge> edges = final_edges(std::span<const RootEdge<A>>(result.edges));
  if (!edges.empty() && first.root().player() >= 0) {
    const auto gumbel = first.gumbel_edge();
    Random rng = Random(config_.seed, ~uint64_t{0}).split(runs_);
    const size_t chosen = gumbel
                              ? *gumbel
                              : typename P::Final(config_).choose(edges, max_return(first.root()),
                                                                  min_return(first.root()), rng);
    result.action = result.edges[chosen].action;
    result.principal_variation = chosen < own_edges
                                     ? first.principal_variation(chosen)
                                     : std::vector<A>{*result.action};  // of another tree
  } else if (first.root().player() >= 0 && result.counters.simulations > 0) {
    ActionBufferOf<S> legal;  // one simulation may have looked at the root alone
    if constexpr (Tree<S, P>::kSamples) {
      if (samples_actions(first.root())) {
        Random rng = Random(config_.seed, ~uint64_t{0}).split(runs_);
        legal.push(first.root().sample_action(rng));
      }
    }
    if (legal.empty()) {
      first.root().legal(legal);
    }
    check(!legal.empty(), "game: player {} is to move and has no legal action",
          first.root().player());
    result.action = legal[0];
    result.principal_variation = {legal[0]};
  }
  return result;
}

// Root parallelism: visits and values of equal actions are added up.
template <GameState S, class P>
void Search<S, P>::merge_trees(Result& result) const {
  for (size_t t = 1; t < trees_.size(); ++t) {
    for (const RootEdge<A>& other : trees_[t]->root_edges()) {
      auto same = std::find_if(result.edges.begin(), result.edges.end(),
                               [&](const RootEdge<A>& e) { return e.action == other.action; });
      if (same == result.edges.end()) {
        result.edges.push_back(other);
        continue;
      }
      const uint64_t visits = same->visits + other.visits;
      same->low = std::max(same->low, other.low);
      same->high = std::min(same->high, other.high);
      if (same->low >= same->high) {
        same->value = same->low;
        same->proven = true;
      } else if (visits > 0) {
        const auto own = static_cast<double>(same->visits);
        same->value += (other.value - same->value) * (1 - own / static_cast<double>(visits));
      }
      same->visits = visits;
    }
    if (!result.proven && trees_[t]->root_solved()) {
      result.proven = true;
      result.value = trees_[t]->root_value();
    }
  }
  double value = 0;
  double visits = 0;
  for (const RootEdge<A>& e : result.edges) {
    value += e.value * static_cast<double>(e.visits);
    visits += static_cast<double>(e.visits);
  }
  for (RootEdge<A>& e : result.edges) {
    e.weight = visits > 0 ? static_cast<double>(e.visits) / visits : 0;
  }
  if (!result.proven && visits > 0) {
    result.value = value / visits;
  }
}

}  // namespace mstrain::mcts
