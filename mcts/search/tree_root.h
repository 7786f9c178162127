// Priors, the root's noise and plan, and what a tree tells about itself. Included by tree.h.
#pragma once

#include "mcts/search/tree.h"

namespace mstrain::mcts {

// Writes the evaluator's priors, normalised, edges in descending order of them. Equal ones keep the order of the actions.
template <GameState S, class P>
void Tree<S, P>::store_priors(Descent& d, const Block& block) {
  const size_t count = d.actions.size();
  double total = 0;
  for (const float p : d.priors) {
    check(p >= 0 && std::isfinite(p), "evaluator: a prior is {}", p);
    total += static_cast<double>(p);
  }
  if (!(total > 0)) {
    std::fill(d.priors.begin(), d.priors.end(), 1.0F);
    total = static_cast<double>(count);
  }
  d.order.resize(count);
  std::iota(d.order.begin(), d.order.end(), 0U);
  std::sort(d.order.begin(), d.order.end(), [&](uint32_t a, uint32_t b) {
    return d.priors[a] != d.priors[b] ? d.priors[a] > d.priors[b] : a < b;
  });
  const auto scale = static_cast<float>(1 / total);
  uint16_t* priors = block.priors(format_);
  for (uint32_t i = 0; i < count; ++i) {
    store_action(block, i, d.actions[d.order[i]]);
    if constexpr (Columns::kPrior) {
      priors[i] = pack_prior(d.priors[d.order[i]] * scale);
    }
  }
  if constexpr (P::kGumbel) {
    block.trailer(format_) =
        d.item.values[static_cast<size_t>(std::max<int>(block.header().player, 0))];
  }
}

template <GameState S, class P>
void Tree<S, P>::prepare_root() {
  prepare_block(at(root_child_));
}

// Mixes noise into the priors of the root block (once for each root), sorts its unvisited edges by them and plans halving.
template <GameState S, class P>
void Tree<S, P>::prepare_block(const Block& block) {
  const uint32_t count = block.header().count;
  if (block.header().player < 0 || count == 0) {
    return;
  }
  block.header().ahead = 0;
  if constexpr (Columns::kPrior && !P::kGumbel) {
    uint16_t* priors = block.priors(format_);
    if (config_.noise_fraction > 0 && noised_ != generation_) {
      noised_ = generation_;
      const double alpha = config_.noise_alpha > 0 ? config_.noise_alpha : 10.0 / count;
      std::vector<double> noise(count);
      double total = 0;
      for (double& x : noise) {
        x = run_.gamma(alpha);
        total += x;
      }
      for (uint32_t i = 0; i < count && total > 0; ++i) {
        const double mixed =
            (1 - config_.noise_fraction) * static_cast<double>(unpack_prior(priors[i])) +
            config_.noise_fraction * noise[i] / total;
        priors[i] = pack_prior(static_cast<float>(mixed));
      }
      for (uint32_t i = block.header().opened + 1U; i < count; ++i) {
        for (uint32_t j = i; j > block.header().opened && priors[j] > priors[j - 1]; --j) {
          std::swap(priors[j], priors[j - 1]);
          const A above = action(block, j - 1);
          store_action(block, j - 1, action(block, j));
          store_action(block, j, above);
        }
      }
    }
  }
  if constexpr (P::kGumbel) {
    gumbel_.plan(block, format_, config_, planned_, run_);
  }
}

template <GameState S, class P>
std::vector<RootEdge<ActionOf<S>>> Tree<S, P>::root_edges() const {
  std::vector<RootEdge<A>> edges;
  if (root_child_ <= kPending) {
    return edges;
  }
  const Block block = at(root_child_);
  const uint32_t pair = solver_.pair_of(block.header().player);
  std::vector<float> improved;
  if constexpr (P::kGumbel) {
    if (gumbel_.planned()) {
      improved = gumbel_.policy(block, format_);
    }
  }
  double total = 0;
  for (uint32_t i = 0; i < block.header().count; ++i) {
    RootEdge<A> edge{.action = action(block, i), .visits = visits_of(root_child_, i)};
    edge.value = edge.visits > 0 ? sum_of(root_child_, i) / static_cast<double>(edge.visits) : 0;
    if constexpr (Columns::kPrior) {
      edge.prior = static_cast<double>(unpack_prior(block.priors(format_)[i]));
    }
    if (config_.solve) {
      edge.low = static_cast<double>(solver_.low(block, format_, pair)[i]);
      edge.high = static_cast<double>(solver_.high(block, format_, pair)[i]);
      edge.proven = edge.low >= edge.high;
      edge.value = edge.proven ? edge.low : edge.value;
    }
    edge.weight =
        improved.empty() ? static_cast<double>(edge.visits) : static_cast<double>(improved[i]);
    total += edge.weight;
    edges.push_back(edge);
  }
  for (RootEdge<A>& edge : edges) {
    edge.weight = total > 0 ? edge.weight / total : 1.0 / static_cast<double>(edges.size());
  }
  return edges;
}

// The mean over the edges for the player to move (player 0 at a chance root).
template <GameState S, class P>
double Tree<S, P>::root_value() const {
  if (root_child_ <= kPending) {
    return 0;
  }
  const Block block = at(root_child_);
  if (config_.solve) {
    const auto bounds = solver_.bounds(block, format_);
    if (solver_.solved(bounds, mover())) {
      return static_cast<double>(bounds.low[solver_.pair_of(block.header().player)]);
    }
  }
  return root_mean();
}

// The edge that is played, then the most visited ones, up to a chance node.
template <GameState S, class P>
std::vector<ActionOf<S>> Tree<S, P>::principal_variation(size_t first) const {
  std::vector<A> line;
  for (const auto& [block, edge] : main_line(static_cast<uint32_t>(first))) {
    line.push_back(action(at(block), edge));
  }
  return line;
}

}  // namespace mstrain::mcts
