// Threads in one tree that work by subtrees. Included by tree.h.
//
// The nodes near the root are open: every thread passes them and changes them by atomic sums. A node below them is free
// or taken: a thread that comes to it takes it with all that lies under it, makes a batch of simulations there as if it were
// alone (no atomics, choices made ahead, the same memory again and again), adds their sum to the open nodes above and lets it
// go. While it works, the batch stands on the path to it as visits of the mean that was known, so that the others go where a
// single thread would go after it. Who finds a subtree taken leaves larger marks and tries again from the root; nobody ever
// waits while holding one. A node is opened when it has its share of the visits, so that there are always many more free
// subtrees than threads, and few of the steps of a simulation are made in open nodes.
//
// Taking acquires and letting go releases what was written below; opened nodes are never taken again.
#pragma once

#include "mcts/search/tree.h"

namespace mstrain::mcts {

template <GameState S, class P>
template <class Evaluate>
uint32_t Tree<S, P>::simulate(Descent& d, Descent& inner, uint64_t simulation, uint32_t most,
                              const Evaluate& evaluate) {
  constexpr uint32_t kFewest = 64;      // visits of an opened node
  constexpr uint32_t kBatchShare = 16;  // simulations at a time: this part of a subtree's visits
  constexpr int kTries = 8;
  constexpr uint32_t kLargestMark = 1U << 16U;  // all threads' marks fit above kCountFrom
  const auto batch_of = [&](uint32_t visits) { return std::clamp(visits / kBatchShare, 1U, most); };
  d.marks.clear();
  Outcome outcome = Outcome::kCollision;
  for (int tries = 0; outcome == Outcome::kCollision; ++tries) {
    if (tries == kTries) {
      unmark(d, 0, d.marks.size());
      return 0;
    }
    enter_root(d, simulation);
    outcome = go_down<Access::kShared>(d, &root_child_, read<Access::kShared>(&counts_.root_visits),
                                       false);
    if (outcome == Outcome::kCollision) {
      ++d.counters.collisions;
      // More each time: a batch that is small beside its subtree would not turn the choice.
      mark_path(d, std::clamp(d.entry_visits / kBatchShare, 1U, kLargestMark) << tries);
      leave(d);
    }
  }
  if (outcome != Outcome::kSubtree) {
    unmark(d, 0, d.marks.size());
    uint32_t many = 1;
    if (outcome == Outcome::kLeaf) {
      evaluate(d);
    } else if (!d.path.empty()) {  // the game is over there: every visit brings the same
      const Step& last = d.path[d.path.size() - 1];
      many = batch_of(read<Access::kShared>(at(last.block).visits() + last.edge));
    }
    check_values(d, d.item.values);
    Sums total;
    for (int p = 0; p < S::kPlayers; ++p) {
      total[p] = static_cast<double>(d.item.values[p]) * many;
    }
    back_up_open(d, total, many);
    d.counters.simulations += many;
    const auto steps = static_cast<uint32_t>(d.path.size());
    d.counters.depth_sum += uint64_t{many} * steps;
    d.counters.max_depth = std::max(d.counters.max_depth, steps);
    leave(d);
    return many;
  }

  struct Letting {
    uint16_t* claim;
    uint16_t next = kFree;
    ~Letting() { __atomic_store_n(claim, next, __ATOMIC_RELEASE); }
  } letting{&at(d.entry).header().claim};
  const uint32_t many = batch_of(d.entry_visits);
  const size_t elsewhere = d.marks.size();
  mark_path(d, many);
  unmark(d, 0, elsewhere);
  inner.above = static_cast<uint32_t>(d.path.size());
  uint64_t visits = d.entry_visits;
  Sums total{};
  for (uint32_t i = 0; i < many; ++i) {
    enter(inner, simulation + i, &visits);
    if (!undoes() || i == 0) {
      inner.state = *d.state;
    }
    uint32_t slot = d.entry;
    if (go_down<Access::kPlain>(inner, &slot, visits, false) == Outcome::kLeaf) {
      evaluate(inner);
    }
    check_values(inner, inner.item.values);
    const Values value = back_up<Access::kPlain>(inner, inner.item.values);
    if constexpr (kAhead) {
      choose_ahead(inner);
    }
    leave(inner);
    for (int p = 0; p < S::kPlayers; ++p) {
      total[p] += static_cast<double>(value[p]);
    }
  }
  unmark(d, elsewhere, d.marks.size());
  back_up_open(d, total, many);
  const BlockHeader& header = at(d.entry).header();
  const bool tried =
      !opens_first() || header.opened >= std::min<uint32_t>(header.count, expand_.limit(visits));
  if (tried && visits >= std::max<uint64_t>(
                             kFewest, read<Access::kShared>(&counts_.root_visits) / open_share_)) {
    letting.next = kOpen;
  }
  leave(d);
  return many;
}

// Adds the sum of `many` results to the open nodes above them.
template <GameState S, class P>
void Tree<S, P>::back_up_open(Descent& d, Sums total, uint32_t many) {
  for (size_t i = d.path.size(); i > 0; --i) {
    const Step step = d.path[i - 1];
    const Block block = at(step.block);
    if (HasRewards<S> && pays_) {
      for (int p = 0; p < S::kPlayers; ++p) {
        total[p] = static_cast<double>(many) * static_cast<double>(d.rewards[i - 1][p]) +
                   static_cast<double>(discount_) * total[p];
      }
    } else if (discount_ != 1) {
      for (double& v : total) {
        v *= static_cast<double>(discount_);
      }
    }
    add_results(step.block, step.edge, static_cast<int32_t>(many),
                total[std::max(static_cast<int>(block.header().player), 0)]);
  }
  add<Access::kShared>(&counts_.root_visits, many);
}

}  // namespace mstrain::mcts
