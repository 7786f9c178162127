// Threads in one tree that work by subtrees. Included by tree.h.
//
// The nodes near the root are open: every thread passes them and changes them by atomic sums. A node below them is free
// or taken: a thread that comes to it takes it with all that lies under it, makes some simulations there as if it were alone
// (no atomics, choices made ahead, the same memory again and again), adds their sum to the open nodes above and lets it go.
// A node is opened when it has its share of the visits, so that there are always many more free subtrees than threads.
// Who finds a subtree taken tries again from the root; nobody ever waits while holding one.
//
// Taking acquires and letting go releases what was written below; opened nodes are never taken again.
#pragma once

#include "mcts/search/tree.h"

namespace mstrain::mcts {

inline constexpr uint16_t kFree = 0;
inline constexpr uint16_t kTaken = 1;
inline constexpr uint16_t kOpen = 2;

// kLeaf: the node is open; kSubtree: taken for the caller; kCollision: somebody else has it.
template <GameState S, class P>
Outcome Tree<S, P>::claim(uint32_t index) {
  uint16_t* at_claim = &at(index).header().claim;
  uint16_t now = __atomic_load_n(at_claim, __ATOMIC_ACQUIRE);
  if (now == kFree && __atomic_compare_exchange_n(at_claim, &now, kTaken, false, __ATOMIC_ACQUIRE,
                                                  __ATOMIC_ACQUIRE)) {
    return Outcome::kSubtree;
  }
  return now == kOpen ? Outcome::kLeaf : Outcome::kCollision;
}

template <GameState S, class P>
void Tree<S, P>::open_root() {
  if (root_child_ > kPending) {
    at(root_child_).header().claim = kOpen;
  }
}

template <GameState S, class P>
template <class Evaluate>
uint32_t Tree<S, P>::simulate(Descent& d, Descent& inner, uint64_t simulation, uint32_t most,
                              const Evaluate& evaluate) {
  constexpr uint32_t kOpenShare = 64;   // a node with this part of all visits is opened,
  constexpr uint32_t kFewest = 64;      // but none with fewer visits
  constexpr uint32_t kBatchShare = 32;  // simulations at a time: this part of a subtree's visits
  enter_root(d, simulation);
  const Outcome outcome =
      go_down<Access::kShared>(d, &root_child_, read<Access::kShared>(&root_visits_), false);
  if (outcome == Outcome::kCollision) {
    ++d.counters.collisions;
    leave(d);
    return 0;
  }
  if (outcome != Outcome::kSubtree) {
    if (outcome == Outcome::kLeaf) {
      evaluate(d);
    }
    check_values(d.item.values);
    Values value = d.item.values;
    if constexpr (HasChance<S> || HasSampleChance<S>) {
      for (int p = 0; p < S::kPlayers; ++p) {
        value[p] = d.tail[p] + d.tail_discount * value[p];
      }
    }
    back_up_open(d, value, 1);
    ++d.counters.simulations;
    d.counters.depth_sum += d.path.size();
    leave(d);
    return 1;
  }

  struct Letting {
    uint16_t* claim;
    uint16_t next = kFree;
    ~Letting() { __atomic_store_n(claim, next, __ATOMIC_RELEASE); }
  } letting{&at(d.entry).header().claim};
  const uint32_t many = std::clamp(d.entry_visits / kBatchShare, 1U, most);
  inner.above = static_cast<uint32_t>(d.path.size());
  uint32_t visits = d.entry_visits;
  Values total{};
  for (uint32_t i = 0; i < many; ++i) {
    enter(inner, simulation + i, &visits);
    if (!prefers_undo<S>() || i == 0) {
      inner.state = *d.state;
    }
    uint32_t slot = d.entry;
    if (go_down<Access::kOwned>(inner, &slot, visits, false) == Outcome::kLeaf) {
      evaluate(inner);
    }
    check_values(inner.item.values);
    const Values value = back_up<Access::kOwned>(inner, inner.item.values);
    if constexpr (kAhead) {
      choose_ahead<Access::kOwned>(inner);
    }
    leave(inner);
    for (int p = 0; p < S::kPlayers; ++p) {
      total[p] += value[p];
    }
  }
  back_up_open(d, total, many);
  if (visits >= std::max(kFewest, read<Access::kShared>(&root_visits_) / kOpenShare)) {
    letting.next = kOpen;
  }
  leave(d);
  return many;
}

// Adds the sum of `many` results to the open nodes above them.
template <GameState S, class P>
void Tree<S, P>::back_up_open(Descent& d, Values total, uint32_t many) {
  for (size_t i = d.path.size(); i > 0; --i) {
    const Step step = d.path[i - 1];
    const Block block = at(step.block);
    if constexpr (HasRewards<S>) {
      for (int p = 0; p < S::kPlayers; ++p) {
        total[p] = static_cast<float>(many) * d.rewards[i - 1][p] + discount_ * total[p];
      }
    } else if (discount_ != 1) {
      for (float& v : total) {
        v *= discount_;
      }
    }
    const float sum = total[std::max(static_cast<int>(block.header().player), 0)];
    add<Access::kShared>(block.visits() + step.edge, many);
    update<Access::kShared>(block.sums() + step.edge, [&](float before) { return before + sum; });
  }
  add<Access::kShared>(&root_visits_, many);
}

}  // namespace mstrain::mcts
