// How the threads of a Search share one tree. Included by search.h.
#pragma once

#include "mcts/search/search.h"

namespace mstrain::mcts {

// The root gets its block before several threads start: who met it half made would only evaluate the root once more.
template <GameState S, class P>
void Search<S, P>::simulate_root(Any& evaluator, Pacer& pacer, bool& stopped) {
  Tree<S, P>& tree = *trees_[0];
  Descent& d = descent(0);
  while (!stopped && tree.root_block() <= kPending && !tree.full()) {
    if (tree.template descend<Access::kPlain>(d, simulation_++, is_eager(evaluator.priors())) ==
        Outcome::kLeaf) {
      evaluate(evaluator, {&d.item, 1}, d.counters);
    }
    tree.template finish<Access::kPlain>(d);
    stopped = !pacer.go_on(1) || root_is_done(tree, pacer);
  }
}

// All threads descend in one tree and gather leaves, which are evaluated at once; then each finishes its own. The descents of a
// thread share what it has taken from the arena.
template <GameState S, class P>
void Search<S, P>::run_tree_in_batches(Any& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  const bool eager = is_eager(evaluator.priors());
  bool stopped = root_is_done(tree, pacer);
  simulate_root(evaluator, pacer, stopped);
  struct Share {
    size_t first = 0;  // the thread's descents: as many as it may make simulations
    size_t descents = 0;
    uint64_t number = 0;  // of the first simulation
    size_t leaves = 0;
    int64_t finished = 0;
  };
  std::vector<Share> shares(static_cast<size_t>(config_.threads));
  const auto each = [&](const auto& work) {
    const auto all = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        work(shares[t]);
      }
    };
    if (pool_ != nullptr) {
      pool_->parallel_for(config_.threads, 1, all);
    } else {
      all(0, config_.threads);
    }
  };
  const auto gather_share = [&](Share& share) {
    const auto simulations = static_cast<int64_t>(share.descents);
    for (int64_t tries = 0; tries < simulations; ++tries) {
      Descent& d = *descents_[share.first + share.leaves];
      d.memory = &descents_[share.first]->chunk;
      const Outcome outcome = tree.template descend<Access::kShared>(
          d, share.number + static_cast<uint64_t>(tries), eager);
      if (outcome == Outcome::kCollision) {
        tree.template abandon<Access::kShared>(d);
        continue;
      }
      ++share.finished;
      if (outcome == Outcome::kTerminal) {
        tree.template finish<Access::kShared>(d);
        continue;
      }
      ++share.leaves;
    }
  };
  const auto finish_share = [&](Share& share) {
    for (size_t i = 0; i < std::min(share.leaves + 1, share.descents); ++i) {
      Descent& d = *descents_[share.first + i];
      if (i < share.leaves) {
        tree.template finish<Access::kShared>(d);
      }
      tree.settle(d);  // also what ended in finished games on the way to the next leaf
    }
  };
  const auto retire_all = [&] {
    for (const auto& d : descents_) {
      tree.retire(*d);
      d->memory = &d->chunk;
    }
  };
  while (!stopped) {
    const int64_t simulations = std::min(config_.batch, pacer.left());
    size_t first = 0;
    for (int64_t t = 0; t < config_.threads; ++t) {
      const int64_t own =
          simulations * (t + 1) / config_.threads - simulations * t / config_.threads;
      shares[t] = {.first = first, .descents = static_cast<size_t>(own), .number = simulation_};
      simulation_ += static_cast<uint64_t>(own);
      first += static_cast<size_t>(own);
    }
    descent(first);
    each(gather_share);
    items_.clear();
    int64_t finished = 0;
    for (const Share& share : shares) {
      for (size_t i = 0; i < share.leaves; ++i) {
        items_.push_back(descents_[share.first + i]->item);
      }
      finished += share.finished;
    }
    evaluate_parallel(evaluator, items_);
    size_t answer = 0;
    for (const Share& share : shares) {
      for (size_t i = 0; i < share.leaves; ++i) {
        descents_[share.first + i]->item.values = items_[answer++].values;
      }
    }
    each(finish_share);
    if (tree.wants_room()) {
      retire_all();
      make_room(tree, pacer, extra_);
    }
    stopped = !pacer.go_on(finished) || root_is_done(tree, pacer);
  }
  retire_all();
}

// All threads descend in one tree. The pacer is asked once for some tens of microseconds of work. Where simulations are short
// and the tree has grown some, the threads work by subtrees (tree_claim.h): what a path costs in atomics would otherwise cost
// more than the second thread brings.
template <GameState S, class P>
void Search<S, P>::run_tree(Any& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  descent(2 * static_cast<size_t>(config_.threads) - 1);
  std::mutex mutex;
  const bool eager = is_eager(evaluator.priors());
  bool stopped = root_is_done(tree, pacer);
  constexpr uint32_t kClaimFrom = 2048;  // visits of the root
  constexpr int64_t kShort = 2;          // simulations of the pacer's share
  std::atomic<bool> failed = false;
  bool by_subtrees = false;
  bool change_over = false;
  int64_t under_way = 0;
  // False where another thread has the leaf.
  const auto simulate = [&](Descent& d, uint64_t simulation) {
    const Outcome outcome = tree.template descend<Access::kShared>(d, simulation, eager);
    if (outcome == Outcome::kCollision) {
      tree.template abandon<Access::kShared>(d);
      std::this_thread::yield();
      return false;
    }
    if (outcome == Outcome::kLeaf) {
      evaluate(evaluator, {&d.item, 1}, d.counters);
    }
    tree.template finish<Access::kShared>(d);
    return true;
  };
  simulate_root(evaluator, pacer, stopped);
  const auto work = [&](Descent& d, Descent& inner) {
    const auto evaluate_leaf = [&](Descent& leaf) {
      evaluate(evaluator, {&leaf.item, 1}, leaf.counters);
    };
    d.claims = by_subtrees;
    for (;;) {
      int64_t share = 0;
      uint64_t simulation = 0;
      {
        const std::lock_guard lock(mutex);
        share = std::min(pacer.share(config_.threads), pacer.left() - under_way);
        if (stopped || share <= 0 || tree.wants_room()) {
          return;
        }
        if (!by_subtrees && !eager && tree.claims() && share >= kShort &&
            tree.root_visits() >= kClaimFrom) {
          change_over = true;
          return;
        }
        under_way += share;
        simulation = simulation_;
        simulation_ += static_cast<uint64_t>(share);
      }
      for (int64_t i = 0; i < share && by_subtrees && !failed;) {
        const uint32_t made = tree.simulate(d, inner, simulation + static_cast<uint64_t>(i),
                                            static_cast<uint32_t>(share - i), evaluate_leaf);
        i += made;
        if (made == 0) {
          std::this_thread::yield();
        }
      }
      for (int64_t i = 0; i < share && !by_subtrees && !failed;) {
        i += simulate(d, simulation + static_cast<uint64_t>(i)) ? 1 : 0;
      }
      tree.settle(d);
      const std::lock_guard lock(mutex);
      under_way -= share;
      stopped = stopped || !pacer.go_on(share) || root_is_done(tree, pacer);
    }
  };
  const auto guarded = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      try {
        Descent& d = *descents_[2 * i];
        Descent& inner = *descents_[2 * i + 1];
        work(d, inner);
        tree.retire(d);
        tree.retire(inner);
      } catch (...) {
        failed = true;
        const std::lock_guard lock(mutex);
        stopped = true;
        throw;
      }
    }
  };
  while (!stopped) {
    if (pool_ != nullptr) {
      pool_->parallel_for(config_.threads, 1, guarded);
    } else {
      guarded(0, 1);
    }
    if (tree.wants_room()) {
      if (!pacer.affords(std::chrono::nanoseconds(4 * tree.used_bytes()))) {
        tree.stop_growing();
      }
      make_room(tree, pacer, extra_);
    }
    if (std::exchange(change_over, false)) {
      by_subtrees = true;
      tree.open_root(config_.threads);
    }
  }
}

}  // namespace mstrain::mcts
