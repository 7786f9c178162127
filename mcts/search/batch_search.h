// Many trees, one evaluator batch: a leaf of each tree goes into a batch, the batch is evaluated, each tree takes its
// answer back. What a tree does depends on its number and the seed alone, so results are the same for any number of threads
// and any batch that a tree happens to share.
//
// The trees stand in groups. While the evaluator works on one group's batch (in a thread of its own), the host descends in
// the other groups, so an evaluator that is slower than the trees never waits.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/thread_pool.h"
#include "mcts/eval_batch.h"
#include "mcts/search/pacer.h"
#include "mcts/search/pipeline.h"
#include "mcts/search/tree.h"

namespace mstrain::mcts {

struct BatchOptions {
  int64_t trees = 256;
  int64_t groups = 2;   // batches in turn; 1: no overlap. At most `trees`
  int64_t threads = 1;  // that descend
};

template <GameState S, class P = PuctPolicies>
class BatchSearch {
 public:
  using A = ActionOf<S>;

  BatchSearch(const SearchConfig& config, const BatchOptions& options)
      : options_(options), config_(config) {
    check_search(config);
    check(options.trees >= 1 && options.threads >= 1 && options.groups >= 1 &&
              options.groups <= options.trees,
          "batch search: {} trees in {} groups with {} threads", options.trees, options.groups,
          options.threads);
    for (int64_t i = 0; i < options.trees; ++i) {
      slots_.push_back(std::make_unique<Slot>(config, static_cast<uint64_t>(i)));
    }
    for (int64_t g = 0; g < options.groups; ++g) {
      groups_.push_back(
          {options.trees * g / options.groups, options.trees * (g + 1) / options.groups, {}});
    }
    if (options.threads > 1) {
      pool_ = std::make_unique<ThreadPool>(static_cast<int>(options.threads - 1));
    }
  }

  int64_t size() const { return options_.trees; }
  void set_root(int64_t tree, const S& root) { slots_[tree]->tree.set_root(root); }
  // Makes what follows on tree `tree` depend on `number` alone and not on what it searched before.
  void begin_game(int64_t tree, uint64_t number) {
    slots_[tree]->tree.reseed(number);
    slots_[tree]->simulation = slots_[tree]->runs = 0;
  }
  void advance(int64_t tree, A action) { slots_[tree]->tree.advance(action); }
  const Tree<S, P>& tree(int64_t i) const { return slots_[i]->tree; }

  // `simulations` more in every tree whose root is not terminal.
  template <Evaluator<S> E>
  void run(E& evaluator, int64_t simulations) {
    run_until(
        evaluator, [&](int64_t) { return simulations; }, [](int64_t) { return false; });
  }

  // The general form. Tree i makes budget(i) simulations, then turn(i) is called (by one thread at a time for each tree, by
  // several for different ones): it may read the tree, advance it or give it a new root, and returns true where the
  // tree is to go on with another budget. Exceptions of games, evaluator and turn() come out; all trees then need new roots.
  template <Evaluator<S> E>
  void run_until(E& evaluator, const std::function<int64_t(int64_t)>& budget,
                 const std::function<bool(int64_t)>& turn);

  SearchCounters counters() const;
  double evaluator_busy_seconds() const { return busy_; }
  double run_seconds() const { return seconds_; }

 private:
  struct Slot {
    Slot(const SearchConfig& config, uint64_t number) : tree(config, number) {}
    Tree<S, P> tree;
    typename Tree<S, P>::Descent descent;
    uint64_t simulation = 0;
    uint64_t runs = 0;
    int64_t left = 0;  // simulations of the present turn; 0: idle
    bool waits = false;
  };
  struct Group {
    int64_t begin;
    int64_t end;
    std::vector<EvalItem<S>> items;
    uint64_t ticket = 0;  // of its batch in the pipeline; 0: none under way
  };

  // Descends until the tree has a leaf to evaluate or nothing more to do.
  void step(int64_t i, bool eager, const std::function<int64_t(int64_t)>& budget,
            const std::function<bool(int64_t)>& turn);
  void begin_turn(int64_t i, const std::function<int64_t(int64_t)>& budget) {
    Slot& slot = *slots_[i];
    check(slot.tree.has_root(), "batch search: tree {} has no root", i);
    slot.left = slot.tree.root().player() == kTerminal ? 0 : budget(i);
    if (slot.left > 0) {
      slot.tree.begin_run(++slot.runs, slot.left);
    }
  }

  BatchOptions options_;
  SearchConfig config_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Group> groups_;
  std::unique_ptr<ThreadPool> pool_;
  SearchCounters batches_;
  double busy_ = 0;
  double seconds_ = 0;
};

template <GameState S, class P>
void BatchSearch<S, P>::step(int64_t i, bool eager, const std::function<int64_t(int64_t)>& budget,
                             const std::function<bool(int64_t)>& turn) {
  Slot& slot = *slots_[i];
  if (slot.waits) {
    slot.tree.template finish<Access::kPlain>(slot.descent);
    slot.waits = false;
    --slot.left;
  } else if (slot.left == 0) {
    return;  // ended in an earlier round, or had nothing to do
  }
  for (;;) {
    if (slot.tree.wants_room()) {
      slot.tree.prune();
      ++slot.descent.counters.prunings;
    }
    if (slot.left == 0 || slot.tree.root_solved()) {
      slot.left = 0;
      if (!turn(i)) {
        return;
      }
      begin_turn(i, budget);
      if (slot.left == 0) {
        return;
      }
    }
    const Outcome outcome =
        slot.tree.template descend<Access::kPlain>(slot.descent, slot.simulation++, eager);
    if (outcome == Outcome::kLeaf) {
      slot.waits = true;
      return;
    }
    slot.tree.template finish<Access::kPlain>(slot.descent);
    --slot.left;
  }
}

template <GameState S, class P>
template <Evaluator<S> E>
void BatchSearch<S, P>::run_until(E& evaluator, const std::function<int64_t(int64_t)>& budget,
                                  const std::function<bool(int64_t)>& turn) {
  const bool eager = (ColumnsOf<P>::kPrior && gives_priors(evaluator)) || P::kGumbel;
  const auto begin = Pacer::Clock::now();
  for (int64_t i = 0; i < options_.trees; ++i) {
    slots_[i]->waits = false;
    begin_turn(i, budget);
  }
  Pipeline pipeline;
  for (Group& group : groups_) {
    group.ticket = 0;
  }
  for (bool busy = true; busy;) {
    busy = false;
    for (Group& group : groups_) {
      pipeline.wait(group.ticket);
      // Each leaf's item lives in its descent; the batch is a copy, so answers go back by position.
      size_t answer = 0;
      for (int64_t i = group.begin; i < group.end && group.ticket != 0; ++i) {
        if (slots_[i]->waits) {
          slots_[i]->descent.item.values = group.items[answer++].values;
        }
      }
      const auto work = [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
          step(group.begin + i, eager, budget, turn);
        }
      };
      const int64_t trees = group.end - group.begin;
      if (pool_ != nullptr) {
        pool_->parallel_for(trees, (trees + 4 * options_.threads - 1) / (4 * options_.threads),
                            work);
      } else {
        work(0, trees);
      }
      group.items.clear();
      for (int64_t i = group.begin; i < group.end; ++i) {
        if (slots_[i]->waits) {
          group.items.push_back(slots_[i]->descent.item);
        }
      }
      group.ticket = 0;
      if (!group.items.empty()) {
        busy = true;
        batches_.evaluations += group.items.size();
        ++batches_.batches;
        const auto evaluate = [&evaluator, &group] {
          EvalBatch<S> batch{group.items};
          evaluator.evaluate(batch);
        };
        if (groups_.size() > 1) {
          pipeline.submit(evaluate);
          group.ticket = pipeline.submitted();
        } else {
          const auto start = Pacer::Clock::now();
          evaluate();
          busy_ += std::chrono::duration<double>(Pacer::Clock::now() - start).count();
          group.ticket = pipeline.submitted() + 1;
          pipeline.submit([] {});
        }
      }
    }
  }
  busy_ += groups_.size() > 1 ? pipeline.busy_seconds() : 0;
  seconds_ += std::chrono::duration<double>(Pacer::Clock::now() - begin).count();
}

template <GameState S, class P>
SearchCounters BatchSearch<S, P>::counters() const {
  SearchCounters sum = batches_;
  for (const auto& slot : slots_) {
    const SearchCounters& one = slot->descent.counters;
    sum.simulations += one.simulations;
    sum.expansions += one.expansions;
    sum.prunings += one.prunings;
    sum.depth_sum += one.depth_sum;
    sum.max_depth = std::max(sum.max_depth, one.max_depth);
  }
  sum.seconds = seconds_;
  return sum;
}

}  // namespace mstrain::mcts
