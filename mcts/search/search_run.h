// How a Search spends its budget: one function for each kind of parallelism. Included by search.h.
#pragma once

#include "mcts/search/search.h"

namespace mstrain::mcts {

// Drops nodes where memory is full and the time allows it: up to 4 ns a byte to find, move and count what stays.
template <class T>
void make_room(T& tree, const Pacer& pacer, SearchCounters& counters) {
  if (tree.wants_room() && pacer.affords(std::chrono::nanoseconds(4 * tree.used_bytes()))) {
    tree.prune();
    ++counters.prunings;
  }
}

// True where the root's own state says that the run is over.
template <class T>
bool root_is_done(const T& tree, Pacer& pacer) {
  if (pacer.solve() && tree.root_solved()) {
    pacer.solved();
    return true;
  }
  return pacer.wants_leader() && pacer.stable(tree.leader());
}

template <GameState S, class P>
void Search<S, P>::begin_run(const Budget& budget) {
  check(trees_[0]->has_root(), "search: a run without a root; call set_root() first");
  check(trees_[0]->root().player() != kTerminal, "search: a run on a finished game");
  forget_counters();
  for (auto& d : descents_) {  // of threads that worked by subtrees
    d->claims = false;
    d->above = 0;
  }
  ++runs_;
  const int64_t planned = budget.simulations > 0 ? budget.simulations : 1024;
  for (auto& tree : trees_) {
    tree->begin_run(runs_, planned / static_cast<int64_t>(trees_.size()));
  }
}

template <GameState S, class P>
template <class Spend>
typename Search<S, P>::Result Search<S, P>::run_by(const Budget& budget, const Spend& spend) {
  check(gathered_ == 0, "search: run() between gather() and scatter()");
  Pacer pacer(budget, config_.solve);
  pacer_.reset();
  begin_run(budget);
  try {
    spend(pacer);
  } catch (...) {
    reset_after_error();
    throw;
  }
  extra_.seconds = pacer.seconds();
  stop_ = pacer.stop();
  return result();
}

// One thread asks its evaluator without a detour; elsewhere a call more does not count.
template <GameState S, class P>
template <Evaluator<S> E>
typename Search<S, P>::Result Search<S, P>::run(E& evaluator, const Budget& budget) {
  if constexpr (!CompiledOnce<S>) {
    if (config_.parallelism == Parallelism::kSerial) {
      return run_by(budget,
                    [&](Pacer& pacer) { run_serial(*trees_[0], descent(0), evaluator, pacer); });
    }
  }
  Any any(evaluator);
  return run(any, budget);
}

template <GameState S, class P>
typename Search<S, P>::Result Search<S, P>::run(AnyEvaluator<S>& evaluator, const Budget& budget) {
  return run_by(budget, [&](Pacer& pacer) {
    switch (config_.parallelism) {
      case Parallelism::kSerial: run_serial(*trees_[0], descent(0), evaluator, pacer); break;
      case Parallelism::kRoot: run_root(evaluator, budget, pacer); break;
      case Parallelism::kLeaf: run_leaf(evaluator, pacer); break;
      case Parallelism::kTree:
        if (evaluator.threads()) {
          run_tree(evaluator, pacer);
        } else {
          run_tree_in_batches(evaluator, pacer);
        }
        break;
      case Parallelism::kDeterministic: run_deterministic(evaluator, pacer); break;
      case Parallelism::kBatched: break;  // the constructor refuses it
    }
  });
}

template <GameState S, class P>
template <class E>
void Search<S, P>::run_serial(Tree<S, P>& tree, Descent& d, E& evaluator, Pacer& pacer) {
  uint64_t simulation = simulation_;
  const bool eager = is_eager(gives_priors(evaluator));
  bool more = !root_is_done(tree, pacer);
  while (more) {
    const Outcome outcome = tree.template descend<Access::kPlain>(d, simulation++, eager);
    if (outcome == Outcome::kLeaf) {
      evaluate(evaluator, {&d.item, 1}, d.counters);
    }
    tree.template finish<Access::kPlain>(d);
    if (tree.full()) [[unlikely]] {
      make_room(tree, pacer, d.counters);
    }
    more = pacer.go_on(1);
    if (more && ((pacer.solve() && outcome == Outcome::kTerminal) || pacer.wants_leader())) {
      more = !root_is_done(tree, pacer);
    }
  }
  if (trees_.size() == 1) {
    simulation_ = simulation;
  }
}

template <GameState S, class P>
void Search<S, P>::run_root(Any& evaluator, const Budget& budget, Pacer& pacer) {
  const auto count = static_cast<int64_t>(trees_.size());
  descent(trees_.size() - 1);
  std::vector<Pacer> pacers;
  for (int64_t i = 0; i < count; ++i) {
    Budget share = budget;
    share.simulations = budget.simulations / count + (i < budget.simulations % count ? 1 : 0);
    const bool nothing = budget.simulations > 0 && share.simulations == 0;
    share.simulations = nothing ? 1 : share.simulations;
    pacers.emplace_back(share, config_.solve);
  }
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      run_serial(*trees_[i], *descents_[i], evaluator, pacers[i]);
    }
  };
  if (pool_ != nullptr) {
    pool_->parallel_for(count, 1, work);
  } else {
    work(0, count);
  }
  int64_t most = 0;
  for (const Pacer& each : pacers) {
    most = std::max(most, each.done());
  }
  simulation_ += static_cast<uint64_t>(most);
  pacer.set_stop(pacers[0].stop());
}

// One descent at a time; its leaf is evaluated several times at once, each result counts as a visit.
template <GameState S, class P>
void Search<S, P>::run_leaf(Any& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  Descent& d = descent(0);
  std::vector<ReturnsOf<S>> values;
  bool more = !root_is_done(tree, pacer);
  while (more) {
    const Outcome outcome =
        tree.template descend<Access::kPlain>(d, simulation_++, is_eager(evaluator.priors()));
    const auto copies = static_cast<size_t>(std::min(config_.leaf_evaluations, pacer.left()));
    values.assign(1, d.item.values);
    if (outcome == Outcome::kLeaf) {
      items_.assign(copies, d.item);
      for (size_t i = 0; i < copies; ++i) {
        items_[i].rng = d.item.rng.split(i);
        if (i > 0) {  // the first one's priors are kept
          items_[i].actions = {};
          items_[i].priors = {};
          items_[i].trace = nullptr;
        }
      }
      evaluate_parallel(evaluator, items_);
      values.resize(copies);
      for (size_t i = 0; i < copies; ++i) {
        values[i] = items_[i].values;
      }
    }
    tree.template finish<Access::kPlain>(d, values);
    make_room(tree, pacer, d.counters);
    more = pacer.go_on(static_cast<int64_t>(values.size())) && !root_is_done(tree, pacer);
  }
}

template <GameState S, class P>
void Search<S, P>::evaluate_parallel(Any& evaluator, std::span<EvalItem<S>> items) {
  const auto count = static_cast<int64_t>(items.size());
  if (pool_ != nullptr && count > 1 && evaluator.threads()) {
    pool_->parallel_for(count, (count + config_.threads - 1) / config_.threads,
                        [&](int64_t begin, int64_t end) {
                          EvalBatch<S> batch{items.subspan(begin, end - begin)};
                          evaluator.evaluate(batch);
                        });
    extra_.evaluations += items.size();
    ++extra_.batches;
  } else if (count > 0) {
    evaluate(evaluator, items, extra_);
  }
}

}  // namespace mstrain::mcts
