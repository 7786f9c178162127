// The way up: marks of visits under way, values, proven bounds. Included by tree.h.
#pragma once

#include <cstring>

#include "mcts/search/tree.h"

namespace mstrain::mcts {

template <GameState S, class P>
template <Access kAccess>
Care Tree<S, P>::mark(uint32_t index, const Block& block, uint32_t edge, uint32_t visits) {
  if constexpr (kAccess == Access::kPlain) {
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
    add<kAccess>(&counts_.root_visits, -1);
  }
  ++d.counters.collisions;
  leave(d);
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
    if (!full()) {
      index = build(d, d.state->player(), d.actions.span(), static_cast<uint32_t>(d.actions.size()),
                    is_shared(kAccess));
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
  if constexpr (kAhead && kAccess == Access::kPlain) {
    choose_ahead(d);
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

// Nothing but the nodes of the path has changed, so what the next descent will choose at each of them is known now. Where the
// policy can, what scores need of their nodes is found first, for several nodes at once: each scan would wait for it.
template <GameState S, class P>
void Tree<S, P>::choose_ahead(Descent& d) {
  const size_t depth = d.path.size();
  float* visits = d.visits.data();
  visits[0] = static_cast<float>(*d.origin);
  if constexpr (WeighsPacks<typename P::Select>) {
    d.weights.resize(depth + kLanes);
    std::fill_n(visits + depth + 1, kLanes - 1, 1.0F);
    for (size_t i = 0; i < depth; i += kLanes) {
      FloatPack pack;
      load(visits + i, pack);
      pack = select_.weight(pack);
      std::memcpy(d.weights.data() + i, &pack, sizeof pack);
    }
  }
  for (size_t i = 0; i < depth; ++i) {
    const Block block = at(d.path[i].block);
    BlockHeader& header = block.header();
    if (header.player >= 0) {
      const uint32_t limit = std::min<uint32_t>(header.count, expand_.limit(visits[i]));
      uint32_t edge = 0;
      if constexpr (WeighsPacks<typename P::Select>) {
        edge = pick<Access::kPlain, true>(block, {d.weights[i]}, limit);
      } else {
        edge = pick<Access::kPlain, true>(block, select_.node(visits[i]), limit);
      }
      header.ahead = static_cast<uint16_t>(1 + edge);
    }
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
  if constexpr (kAhead && kAccess == Access::kPlain) {
    d.visits.resize(depth + 1 + kLanes);
  }
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
    [[maybe_unused]] float given_back = 0;
    if constexpr (kAccess != Access::kPlain && Columns::kInFlight) {
      add<kAccess>(
          reinterpret_cast<AliasedCount*>(block.policy_column(Columns::kInFlightCount)) + step.edge,
          -1);
    } else if (kAccess == Access::kShared && step.care != Care::kMark) {
      if (step.care == Care::kGather) {
        gather(d, step, v);
        continue;
      }
    } else if constexpr (kAccess != Access::kPlain) {
      given_back = virtual_loss_;
      adds = 0;  // counted when it was marked
    }
    const uint32_t n = add_visits<kAccess>(step.block, block, step.edge, adds);
    if constexpr (kAccess == Access::kPlain) {
      change_sum<kAccess>(
          step.block, block, kSumColumn, step.edge, n,
          [backup = backup_, v]<class F>(F sum, F visits) { return backup.sum(sum, visits, v); });
    } else {
      change_sum<kAccess>(step.block, block, kSumColumn, step.edge, n,
                          [backup = backup_, v, given_back]<class F>(F sum, F visits) {
                            return backup.sum(sum + static_cast<F>(given_back), visits, v);
                          });
    }
    if constexpr (kAhead && kAccess == Access::kPlain) {
      d.visits[i] = static_cast<float>(n);
    }
    if constexpr (Columns::kSquare) {
      change_sum<kAccess>(step.block, block, kPolicyColumn + Columns::kSquareSum, step.edge, n,
                          [v]<class F>(F sum, F) { return sum + static_cast<F>(v * v); });
    }
    if constexpr (Columns::kAmaf) {
      back_up_amaf<kAccess>(d, step, block, d.moves[i - 1], v);
    }
  }
  if constexpr (kAccess == Access::kPlain) {
    ++*d.origin;
  }
  if (config_.solve && d.exact) {
    back_up_bounds(d, leaf);
  }
  ++d.counters.simulations;
  const auto steps = static_cast<uint32_t>(depth) + d.above;
  d.counters.depth_sum += steps;
  d.counters.max_depth = std::max(d.counters.max_depth, steps);
  return value;
}

template <GameState S, class P>
void Tree<S, P>::back_up_bounds(Descent& d, const Values& exact) {
  for (size_t i = d.path.size(); i > 0; --i) {
    const Step step = d.path[i - 1];
    const Block block = at(step.block);
    bool changed = false;
    if (i == d.path.size()) {
      const int player = block.header().player;
      changed = solver_.tighten(block, format_, step.edge, solver_.exact(exact, player), player);
    } else {
      const Block child = at(d.path[i].block);
      changed = solver_.tighten(block, format_, step.edge, solver_.bounds(child, format_),
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
