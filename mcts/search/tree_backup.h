// The way up: marks of visits under way, values, proven bounds. Included by tree.h.
#pragma once

#include "mcts/search/tree.h"

namespace mstrain::mcts {

template <GameState S, class P>
template <Access kAccess>
[[gnu::always_inline]] inline uint32_t Tree<S, P>::add_visits(uint32_t index, const Block& block,
                                                              uint32_t edge, int32_t many) {
  uint32_t* shown = block.visits() + edge;
  const uint32_t before = read<kAccess>(shown);
  if (before >= kCountFrom) [[unlikely]] {
    return count_exactly<kAccess>(index, block, edge, many);
  }
  add<kAccess>(shown, static_cast<uint32_t>(many));
  return before + static_cast<uint32_t>(many);
}

template <GameState S, class P>
template <Access kAccess>
[[gnu::noinline]] uint32_t Tree<S, P>::count_exactly(uint32_t index, const Block& block,
                                                     uint32_t edge, int32_t many) {
  constexpr bool kShared = of_tree(kAccess) == Access::kShared;
  uint32_t* shown = block.visits() + edge;
  note_exact<kAccess>(block);
  totals_.update<kShared>(Totals::key(present(index), kVisitColumn, edge), shown, 1,
                          [&](double n) { return n + many; });
  return read<kAccess>(shown);
}

template <GameState S, class P>
template <Access kAccess>
void Tree<S, P>::note_exact(const Block& block) {
  uint8_t* flags = &block.header().flags;
  if ((read<of_tree(kAccess)>(flags) & kExactFlag) == 0) {
    if constexpr (of_tree(kAccess) == Access::kShared) {
      __atomic_fetch_or(flags, kExactFlag, __ATOMIC_RELAXED);
    } else {
      *flags |= kExactFlag;
    }
  }
}

template <GameState S, class P>
template <Access kAccess, class Change>
[[gnu::always_inline]] inline void Tree<S, P>::change_sum(uint32_t index, const Block& block,
                                                          uint32_t column, uint32_t edge,
                                                          uint32_t visits, const Change& change) {
  if (visits < kExactFrom) [[likely]] {
    update<kAccess>(block.column(column) + edge,
                    [&](float sum) { return change(sum, static_cast<float>(visits)); });
  } else if (!change_where_exact<kAccess>(block, column, edge, visits, change)) {
    change_exactly<kAccess>(index, block, column, edge, visits, change);
  }
}

// Where the column itself can show the new sum, as it does for wins and losses up to 2^24, and no edge of the block has left for
// Totals: true. Others may send the edge there meanwhile, which then finds this change as late.
template <GameState S, class P>
template <Access kAccess, class Change>
[[gnu::always_inline]] inline bool Tree<S, P>::change_where_exact(const Block& block,
                                                                  uint32_t column, uint32_t edge,
                                                                  uint32_t visits,
                                                                  const Change& change) {
  if (visits >= kCountFrom || (read<of_tree(kAccess)>(&block.header().flags) & kExactFlag) != 0) {
    return false;
  }
  float* shown = block.column(column) + edge;
  float before = read<kAccess>(shown);
  for (;;) {
    const double next = change(static_cast<double>(before), static_cast<double>(visits));
    const auto after = static_cast<float>(next);
    if (static_cast<double>(after) != next) {
      return false;
    }
    if constexpr (kAccess == Access::kShared) {
      if (!__atomic_compare_exchange(shown, &before, &after, true, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        continue;
      }
    } else {
      *shown = after;
    }
    return true;
  }
}

template <GameState S, class P>
template <Access kAccess, class Change>
[[gnu::noinline]] void Tree<S, P>::change_exactly(uint32_t index, const Block& block,
                                                  uint32_t column, uint32_t edge, uint32_t visits,
                                                  const Change& change) {
  constexpr bool kShared = of_tree(kAccess) == Access::kShared;
  note_exact<kAccess>(block);
  const uint32_t place = present(index);
  // A count that its column cannot show leaves the mean as it is.
  const double exact = visits < kCountFrom
                           ? visits
                           : totals_.find<kShared>(Totals::key(place, kVisitColumn, edge), visits);
  totals_.update<kShared>(Totals::key(place, column, edge), block.column(column) + edge,
                          visits / exact, [&](double sum) { return change(sum, exact); });
}

template <GameState S, class P>
template <Access kAccess>
Care Tree<S, P>::mark(uint32_t index, const Block& block, uint32_t edge, uint32_t visits) {
  if constexpr (is_alone(kAccess)) {
    return Care::kUpdate;
  } else if constexpr (Columns::kInFlight) {
    add<kAccess>(
        reinterpret_cast<AliasedCount*>(block.policy_column(Columns::kInFlightCount)) + edge, 1);
    return Care::kMark;
  } else {
    if constexpr (kAccess == Access::kShared && kGathers) {
      if (visits >= kMarkBelow) {
        return visits >= kGatherFrom ? Care::kGather : Care::kUpdate;
      }
    }
    const uint32_t n = add_visits<kAccess>(index, block, edge, 1);
    if (virtual_loss_ != 0) {
      change_sum<kAccess>(index, block, kSumColumn, edge, n,
                          [&]<class F>(F sum, F) { return sum - static_cast<F>(virtual_loss_); });
    }
    return Care::kMark;
  }
}

template <GameState S, class P>
void Tree<S, P>::gather(Descent& d, const Step& step, float value) {
  for (auto& g : d.gathered) {
    if (g.block == step.block && g.edge == step.edge) {
      ++g.visits;
      g.sum += static_cast<double>(value);
      return;
    }
  }
  d.gathered.push_back({step.block, step.edge, 1, static_cast<double>(value)});
  if (d.gathered.size() >= 48) {
    settle(d);
  }
}

template <GameState S, class P>
void Tree<S, P>::settle(Descent& d) {
  for (const auto& g : d.gathered) {
    add_results<Access::kShared>(g.block, g.edge, static_cast<int32_t>(g.visits), g.sum);
  }
  d.gathered.clear();
  if (d.gathered_roots > 0) {
    add<Access::kShared>(&root_visits_, d.gathered_roots);
    d.gathered_roots = 0;
  }
  add<Access::kShared>(&edges_, std::exchange(d.fresh_edges, 0U));
}

template <GameState S, class P>
void Tree<S, P>::retire(Descent& d) {
  settle(d);
  arena_.close(d.chunk);
}

template <GameState S, class P>
template <Access kAccess>
void Tree<S, P>::abandon(Descent& d) {
  for (const Step& step : d.path) {
    const Block block = at(step.block);
    if constexpr (Columns::kInFlight) {
      add<kAccess>(
          reinterpret_cast<AliasedCount*>(block.policy_column(Columns::kInFlightCount)) + step.edge,
          -1);
    } else if (step.care == Care::kMark) {
      // With the visit still counted, so that the sum is changed where it was when it was marked.
      const uint32_t n = read<kAccess>(block.visits() + step.edge);
      change_sum<kAccess>(step.block, block, kSumColumn, step.edge, n,
                          [&]<class F>(F sum, F) { return sum + static_cast<F>(virtual_loss_); });
      add_visits<kAccess>(step.block, block, step.edge, -1);
    }
  }
  if constexpr (P::kGumbel) {
    if (!d.path.empty() && d.path[0].block == root_child_) {
      gumbel_.take_back(d.path[0].edge);
    }
  }
  if (d.gathered_roots > 0) {
    --d.gathered_roots;
  } else {
    add<kAccess>(&root_visits_, -1);
  }
  ++d.counters.collisions;
  leave(d);
}

// `many` results that sum to `sum`, which no policy looks at one by one.
template <GameState S, class P>
template <Access kAccess>
void Tree<S, P>::add_results(uint32_t index, uint32_t edge, int32_t many, double sum) {
  const Block block = at(index);
  const uint32_t n = add_visits<kAccess>(index, block, edge, many);
  change_sum<kAccess>(index, block, kSumColumn, edge, n,
                      [&]<class F>(F before, F) { return before + static_cast<F>(sum); });
}

// Back to the root state by undo, where the game wants that.
template <GameState S, class P>
void Tree<S, P>::leave(Descent& d) {
  if constexpr (kMayUndo) {
    if (undoes()) {
      for (size_t i = d.moves.size(); i > 0; --i) {
        d.state->undo(d.moves[i - 1]);
      }
    }
  }
}

template <GameState S, class P>
template <Access kAccess>
void Tree<S, P>::finish(Descent& d, std::span<const Values> values) {
  for (const Values& each : values) {
    check_values(d, each);
  }
  if (d.owns_leaf) {
    uint32_t index = kNoBlock;
    if (!read<of_tree(kAccess)>(&full_)) {
      index = build<kAccess>(d, d.state->player(), d.actions.span(),
                             static_cast<uint32_t>(d.actions.size()));
    }
    if (index != kNoBlock) {
      ++d.counters.expansions;
      const Block block(arena_.at(index));
      store_priors(d, block);
      if (d.path.empty()) {
        prepare_block(block);
      }
    }
    write_child<kAccess>(slot(d), index);
  }
  for (const Values& each : values) {
    back_up<kAccess>(d, each);
  }
  if constexpr (kAhead && is_alone(kAccess)) {
    choose_ahead<kAccess>(d);
  }
  leave(d);
}

template <GameState S, class P>
void Tree<S, P>::check_values(const Descent& d, const Values& values) const {
  for (int p = 0; p < S::kPlayers; ++p) {
    check(std::isfinite(values[p]), "{} for player {} is {}",
          d.exact ? "game: the result" : "evaluator: the value", p, values[p]);
    if (config_.solve && d.exact) {
      check(
          p >= players_of(*root_) || (values[p] >= solver_.least() && values[p] <= solver_.most()),
          "game: the result for player {} is {}, outside of the range [{}, {}] that it states", p,
          values[p], solver_.least(), solver_.most());
    }
  }
}

// Nothing but the nodes of the path has changed, so what the next descent will choose at each of them is known now.
template <GameState S, class P>
template <Access kAccess>
void Tree<S, P>::choose_ahead(const Descent& d) {
  uint64_t visits = *d.origin;
  for (const Step& step : d.path) {
    const Block block = at(step.block);
    BlockHeader& header = block.header();
    if (header.player >= 0) {
      const auto n = static_cast<float>(visits);
      const uint32_t limit = std::min<uint32_t>(header.count, expand_.limit(n));
      header.ahead = static_cast<uint16_t>(1 + pick<kAccess, true>(block, n, limit));
    }
    visits = block.visits()[step.edge];
  }
}

template <GameState S, class P>
template <Access kAccess>
ReturnsOf<S> Tree<S, P>::back_up(Descent& d, Values value) {
  const Values leaf = value;
  if constexpr (HasChance<S> || HasSampleChance<S>) {
    for (int p = 0; p < S::kPlayers; ++p) {
      value[p] = d.tail[p] + d.tail_discount * value[p];
    }
  }
  if constexpr (Columns::kAmaf) {
    start_amaf(d);
  }
  const size_t depth = d.path.size();
  for (size_t i = depth; i > 0; --i) {
    const Step step = d.path[i - 1];
    const Block block = at(step.block);
    if (HasRewards<S> && pays_) {
      for (int p = 0; p < S::kPlayers; ++p) {
        value[p] = d.rewards[i - 1][p] + discount_ * value[p];
      }
    } else if (discount_ != 1) {
      for (float& v : value) {
        v *= discount_;
      }
    }
    const float v = value[std::max(static_cast<int>(block.header().player), 0)];
    int32_t adds = 1;
    float given_back = 0;
    if constexpr (!is_alone(kAccess) && Columns::kInFlight) {
      add<kAccess>(
          reinterpret_cast<AliasedCount*>(block.policy_column(Columns::kInFlightCount)) + step.edge,
          -1);
    } else if (kAccess == Access::kShared && step.care != Care::kMark) {
      if (step.care == Care::kGather) {
        gather(d, step, v);
        continue;
      }
    } else if constexpr (!is_alone(kAccess)) {
      given_back = virtual_loss_;
      adds = 0;  // counted when it was marked
    }
    const uint32_t n = add_visits<kAccess>(step.block, block, step.edge, adds);
    change_sum<kAccess>(step.block, block, kSumColumn, step.edge, n,
                        [&]<class F>(F sum, F visits) -> F {
                          return backup_.sum(sum + static_cast<F>(given_back), visits, v);
                        });
    if constexpr (Columns::kSquare) {
      change_sum<kAccess>(step.block, block, kPolicyColumn + Columns::kSquareSum, step.edge, n,
                          [&]<class F>(F sum, F) { return sum + static_cast<F>(v * v); });
    }
    if constexpr (Columns::kAmaf) {
      back_up_amaf<kAccess>(d, step, block, d.moves[i - 1], v);
    }
  }
  if constexpr (is_alone(kAccess)) {
    ++*d.origin;
  }
  if (config_.solve && d.exact) {
    back_up_bounds<kAccess>(d, leaf);
  }
  ++d.counters.simulations;
  const auto steps = static_cast<uint32_t>(depth) + d.above;
  d.counters.depth_sum += steps;
  d.counters.max_depth = std::max(d.counters.max_depth, steps);
  return value;
}

template <GameState S, class P>
template <Access kAccess>
void Tree<S, P>::back_up_bounds(Descent& d, const Values& exact) {
  for (size_t i = d.path.size(); i > 0; --i) {
    const Step step = d.path[i - 1];
    const Block block = at(step.block);
    bool changed = false;
    if (i == d.path.size()) {
      const int player = block.header().player;
      changed = solver_.template tighten<kAccess>(block, format_, step.edge,
                                                  solver_.exact(exact, player), player);
    } else {
      const Block child = at(d.path[i].block);
      changed = solver_.template tighten<kAccess>(block, format_, step.edge,
                                                  solver_.template bounds<kAccess>(child, format_),
                                                  child.header().player);
    }
    if (!changed) {
      return;
    }
  }
}

// Notes what was played below the leaf.
template <GameState S, class P>
void Tree<S, P>::start_amaf(Descent& d) {
  static_assert(NumbersActions<S>, "RAVE needs S::kMaxActions, or max_actions() of a state");
  const size_t actions = max_actions_of(*root_);
  d.played.resize(size_t{S::kPlayers} * actions, 0);
  if (++d.descent == 0) {
    std::fill(d.played.begin(), d.played.end(), 0);
    d.descent = 1;
  }
  for (const auto& [player, action] : d.trace) {
    if (player >= 0) {
      d.played[static_cast<size_t>(player) * actions + action] = d.descent;
    }
  }
  d.trace.clear();
}

// Credits every edge of the block whose action its player took here or later.
template <GameState S, class P>
template <Access kAccess>
void Tree<S, P>::back_up_amaf(Descent& d, const Step& step, const Block& block, A taken,
                              float value) {
  const int player = block.header().player;
  if (player < 0) {
    return;
  }
  uint32_t* played = d.played.data() + static_cast<size_t>(player) * max_actions_of(*root_);
  played[taken] = d.descent;
  for (uint32_t i = 0; i < block.header().count; ++i) {
    if (played[action(block, i)] == d.descent) {
      const auto add_to = [&](uint32_t column, float amount) {
        const float n = read<kAccess>(block.policy_column(Columns::kAmafVisits) + i);
        const uint32_t visits = n < float{kExactFrom} ? 0 : kExactFrom;
        change_sum<kAccess>(step.block, block, kPolicyColumn + column, i, visits,
                            [&]<class F>(F sum, F) { return sum + static_cast<F>(amount); });
      };
      add_to(Columns::kAmafVisits, 1);
      add_to(Columns::kAmafSum, value);
    }
  }
}

}  // namespace mstrain::mcts
