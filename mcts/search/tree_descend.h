// The way down: Tree::descend and what it calls. Included by tree.h.
#pragma once

#include "mcts/search/tree.h"

namespace mstrain::mcts {

template <GameState S, class P>
void Tree<S, P>::enter(Descent& d, uint64_t simulation, uint64_t* origin) {
  d.origin = origin;
  d.rng = random_.split(simulation);
  d.path.clear();
  d.rewards.clear();
  d.moves.clear();
  d.item.actions = {};
  d.owns_leaf = false;
  d.exact = false;
  if constexpr (Columns::kAmaf) {
    d.item.trace = &d.trace;
  }
  if constexpr (HasChance<S> || HasSampleChance<S>) {
    d.tail = {};
    d.tail_discount = 1;
  }
}

template <GameState S, class P>
void Tree<S, P>::enter_root(Descent& d, uint64_t simulation) {
  enter(d, simulation, &counts_.root_visits);
  if (!undoes() || d.generation != generation_) {
    d.state = *root_;
    d.generation = generation_;
  }
}

template <GameState S, class P>
template <Access kAccess>
Outcome Tree<S, P>::descend(Descent& d, uint64_t simulation, bool eager) {
  enter_root(d, simulation);
  const uint64_t visits = read<kAccess>(&counts_.root_visits);
  if constexpr (kAccess != Access::kPlain) {
    if (kAccess == Access::kShared && kGathers && visits >= kGatherFrom) {
      ++d.gathered_roots;
    } else {
      add<kAccess>(&counts_.root_visits, 1);
    }
  }
  return go_down<kAccess>(d, &root_child_, visits, eager);
}

template <GameState S, class P>
template <Access kAccess>
Outcome Tree<S, P>::go_down(Descent& d, uint32_t* slot, uint64_t visits, bool eager) {
  S& state = *d.state;
  for (;;) {
    const int player = state.player();
    if (player == kTerminal) {
      d.item.values = state.returns();
      d.exact = true;
      return Outcome::kTerminal;
    }
    if (player < kChance || player >= S::kPlayers) [[unlikely]] {
      fail("game: player() is {}, with {} players", player, S::kPlayers);
    }
    uint32_t index = read_child<kAccess>(slot);
    if (index <= kPending) {
      if (player == kChance || (!eager && visits > 0)) {
        index = expand<kAccess>(d, slot, player);
      }
      if (index <= kPending) {
        if (player == kChance) {
          pass_chance(d);
          if (state.player() == kTerminal) {
            d.item.values = state.returns();
            return Outcome::kTerminal;
          }
        } else if (eager) {
          if (index == kPending || !claim_child<kAccess>(slot, kNoBlock, kPending)) {
            return Outcome::kCollision;
          }
          d.owns_leaf = true;
          d.actions.clear();
          expand_.actions(state, d.actions, d.rng);
          check(!d.actions.empty(), "game: player {} is to move and has no legal action", player);
          d.priors.resize(d.actions.size());
          d.item.actions = d.actions.span();
          d.item.priors = d.priors;
        }
        d.item.state = &state;
        d.item.rng = d.rng.split(0);
        return Outcome::kLeaf;
      }
    }
    if constexpr (kAccess == Access::kShared && kGathers) {
      if (d.claims) {
        if (const Outcome taken = claim(index); taken != Outcome::kLeaf) {
          d.entry = index;
          d.entry_visits = static_cast<uint32_t>(std::min<uint64_t>(visits, kMostShown));
          return taken;
        }
      }
    }
    const uint32_t edge = choose<kAccess>(d, slot, index, visits);
    const Block block = at(index);
    if (block.header().player != player) [[unlikely]] {
      fail("game: the same actions led to player {} and to player {}",
           static_cast<int>(block.header().player), player);
    }
    const A taken = action(block, edge);
    visits = read<kAccess>(block.visits() + edge);
    const Care care = kAccess == Access::kShared && d.claims
                          ? Care::kUpdate
                          : mark<kAccess>(index, block, edge, static_cast<uint32_t>(visits));
    d.path.push({index, static_cast<uint16_t>(edge), care});
    state.apply(taken);
    if constexpr (kKeepsMoves) {
      d.moves.push(taken);
    }
    if constexpr (HasRewards<S>) {
      if (pays_) {
        d.rewards.push(state.rewards());
      }
    }
    slot = block.children() + edge;
  }
}

// Goes on from a chance state that found no room in the tree to the next state with a player.
template <GameState S, class P>
void Tree<S, P>::pass_chance(Descent& d) {
  S& state = *d.state;
  while (state.player() == kChance) {
    const A taken = draw_chance(state, d.outcomes, d.rng);
    state.apply(taken);
    if constexpr (kKeepsMoves) {
      d.moves.push(taken);
    }
    if constexpr (HasRewards<S>) {
      const Values paid = pays_ ? state.rewards() : Values{};
      for (int p = 0; p < S::kPlayers; ++p) {
        d.tail[p] += d.tail_discount * paid[p];
      }
    }
    d.tail_discount *= discount_;
  }
}

template <GameState S, class P>
template <Access kAccess>
uint32_t Tree<S, P>::choose(Descent& d, uint32_t* slot, uint32_t& index, uint64_t visits) {
  Block block = at(index);
  BlockHeader& header = block.header();
  if (header.player < 0) {
    return choose_chance(d, slot, index);
  }
  if constexpr (P::kGumbel) {
    if (slot == &root_child_) {
      return gumbel_.choose(block, format_);
    }
    const uint32_t edge = choose_improved(block, format_, gumbel_scale_);
    if (edge == header.opened) {
      ++header.opened;
    }
    return edge;
  } else {
    if constexpr (kAhead && kAccess != Access::kShared) {
      const uint32_t ahead = std::exchange(header.ahead, uint16_t{0});
      if (kAccess == Access::kPlain && ahead != 0) {
        header.opened += header.opened == ahead - 1 ? 1 : 0;
        return ahead - 1;
      }
    }
    const auto n = static_cast<float>(visits);
    const uint32_t allowed = expand_.limit(n);
    if constexpr (kSamples) {
      if (samples_ && header.opened >= header.count && allowed > header.count &&
          header.count < kMostEdges) {
        const A fresh = d.state->sample_action(d.rng);
        if (find(block, fresh) == header.count && append(d, slot, index, fresh) != kNoBlock) {
          block = at(index);
          return block.header().opened++;
        }
        check(header.count > 0, "search: memory_limit is too small for this game");
      }
    }
    const uint32_t limit = std::min<uint32_t>(header.count, allowed);
    for (;;) {
      const uint32_t open = read<kAccess>(&header.opened);
      if constexpr (kExplores) {
        if (open >= limit && select_.explore(d.rng)) {
          return d.rng.below(open);
        }
      }
      uint32_t edge = pick<kAccess, false>(block, select_.node(n), limit);
      if (edge < open) {
        return edge;
      }
      edge = claim_edge<kAccess>(&header.opened, limit);
      if (edge < limit) {
        return edge;
      }
    }
  }
}

// The edge to follow at a node of which `limit` edges may be open; the first unopened one where that is to be opened.
// Changes nothing. kHot: where most edges are chosen.
template <GameState S, class P>
template <Access kAccess, bool kHot>
[[gnu::always_inline]] inline uint32_t Tree<S, P>::pick(Block block, typename P::Select::Node node,
                                                        uint32_t limit) {
  const BlockHeader& header = block.header();
  const uint32_t open =
      P::Select::kOpening == Opening::kAll ? limit : read<kAccess>(&header.opened);
  if (open < limit && opens_first()) {
    return open;
  }
  Scan scan;
  if (config_.solve) {
    scan = scan_edges_apart<P, kAccess, true>(
        block, format_, select_, node, open,
        {solver_.floor(block, format_, open), 2 * solver_.pair_of(header.player) + 1});
  } else if constexpr (kHot) {
    scan = scan_edges<P, kAccess, PackOf<P>, false>(block, format_, select_, node, open, {});
  } else {
    scan = scan_edges_apart<P, kAccess, false>(block, format_, select_, node, open, {});
  }
  if constexpr (P::Select::kOpening == Opening::kBestPrior) {
    if (open < limit) {
      const float value = scan.visits > 0 ? scan.value / scan.visits : 0.0F;
      const float prior = unpack_prior(block.priors(format_)[open]);
      if (scan.best < 0 || select_.unvisited(prior, value, scan.prior, node) > scan.score) {
        return open;
      }
    }
  } else if constexpr (values_first_play<P>()) {
    if (open < limit) {
      const float value = mean_of_edges<kAccess>(block, open);
      const float share = static_cast<float>(open) / static_cast<float>(header.count);
      if (scan.best < 0 || select_.unvisited(0, value, share, node) > scan.score) {
        return open;
      }
    }
  }
  if (scan.best >= 0) {
    return static_cast<uint32_t>(scan.best);
  }
  // Every edge is proven (or scored NaN): the best of them.
  uint32_t best = 0;
  if (config_.solve) {
    const float* low = solver_.low(block, format_, solver_.pair_of(header.player));
    for (uint32_t i = 1; i < open; ++i) {
      if (read<kAccess>(low + i) > read<kAccess>(low + best)) {
        best = i;
      }
    }
  }
  return best;
}

template <GameState S, class P>
uint32_t Tree<S, P>::find(const Block& block, A wanted) const {
  const uint32_t count = block.header().count;
  uint32_t i = 0;
  while (i < count && !(action(block, i) == wanted)) {
    ++i;
  }
  return i;
}

template <GameState S, class P>
uint32_t Tree<S, P>::choose_chance(Descent& d, uint32_t* slot, uint32_t& index) {
  uint32_t place = 0;
  const A drawn = draw_chance(*d.state, d.outcomes, d.rng, &place);
  Block block = at(index);
  const uint32_t count = block.header().count;
  if (!HasSampleChance<S> && place < count && action(block, place) == drawn) {
    return place;
  }
  const uint32_t edge = find(block, drawn);
  if (edge < count) {
    return edge;
  }
  if constexpr (kGrows) {
    if (append(d, slot, index, drawn) != kNoBlock) {
      block = at(index);
      block.header().opened = block.header().count;
      return count;
    }
    check(count > 0, "search: memory_limit is too small for this game");
    return d.rng.below(count);
  } else {
    fail("game: chance outcome {} was not among those listed before", action_text(*d.state, drawn));
  }
}

// Adds an edge to a block, which moves where it is full. 0 where there is no room.
template <GameState S, class P>
uint32_t Tree<S, P>::append(Descent& d, uint32_t* slot, uint32_t& index, A action) {
  Block block = at(index);
  const uint32_t count = block.header().count;
  if (count == block.header().capacity) {
    const uint32_t larger_index = enlarge(d, index);
    if (larger_index == kNoBlock) {
      return kNoBlock;
    }
    *slot = index = larger_index;
    block = at(index);
    if (config_.solve) {
      solver_.clear(block, format_, count, block.header().capacity);
    }
  }
  store_action(block, count, action);
  if constexpr (Columns::kPrior) {
    block.priors(format_)[count] = pack_prior(1.0F);
  }
  ++block.header().count;
  ++counts_.edges;
  return index;
}

// Gives the state at `slot` its block. kPending where another thread is doing so, kNoBlock where memory is full.
template <GameState S, class P>
template <Access kAccess>
uint32_t Tree<S, P>::expand(Descent& d, uint32_t* slot, int player) {
  if (full()) {
    return kNoBlock;
  }
  if (!claim_child<kAccess>(slot, kNoBlock, kPending)) {
    const uint32_t now = read_child<kAccess>(slot);
    return now;
  }
  d.actions.clear();
  if (player == kChance) {
    if constexpr (HasChance<S>) {
      d.outcomes.clear();
      d.state->chance(d.outcomes);
      double total = 0;
      for (const auto& outcome : d.outcomes) {
        check(outcome.probability >= 0, "game: a chance outcome has probability {}",
              outcome.probability);
        total += static_cast<double>(outcome.probability);
        d.actions.push(outcome.action);
      }
      check(std::abs(total - 1) < 1e-3, "game: the probabilities of a chance state sum to {}",
            total);
    }
  } else if (!samples_) {
    expand_.actions(*d.state, d.actions, d.rng);
    check(!d.actions.empty(), "game: player {} is to move and has no legal action", player);
  }
  const uint32_t index =
      build(d, player, d.actions.span(), std::max<uint32_t>(4U * kGrows, d.actions.size()),
            is_shared(kAccess));
  if (index != kNoBlock) {
    ++d.counters.expansions;
    if constexpr (Columns::kPrior) {
      const Block block(arena_.at(index));
      const auto uniform = 1.0F / static_cast<float>(std::max<size_t>(1, d.actions.size()));
      std::fill_n(block.priors(format_), d.actions.size(), pack_prior(uniform));
      if (slot == &root_child_) {
        prepare_block(block);
      }
    }
  }
  write_child<kAccess>(slot, index);
  return index;
}

template <GameState S, class P>
uint32_t Tree<S, P>::build(Descent& d, int player, std::span<const A> actions, uint32_t capacity,
                           bool shared) {
  const uint32_t index = add_block(d, player, actions.size(), capacity, shared);
  if (index == kNoBlock) {
    return kNoBlock;
  }
  const Block block(arena_.at(index));
  BlockHeader& header = block.header();
  if (P::Select::kOpening == Opening::kAll || player < 0) {
    header.opened = header.count;
  }
  for (uint32_t i = 0; i < actions.size(); ++i) {
    store_action(block, i, actions[i]);
  }
  if (config_.solve) {
    solver_.clear(block, format_, 0, capacity);
  }
  return index;
}

}  // namespace mstrain::mcts
