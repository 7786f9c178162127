// How a Search spends its budget, one function for each kind of parallelism. Included by search.h.
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
template <Evaluator<S> E>
typename Search<S, P>::Result Search<S, P>::run(E& evaluator, const Budget& budget) {
  check(trees_[0]->has_root(), "search: run() without a root; call set_root() first");
  check(trees_[0]->root().player() != kTerminal, "search: run() on a finished game");
  check(gathered_ == 0, "search: run() between gather() and scatter()");
  for (auto& d : descents_) {
    d->counters = {};
  }
  extra_ = {};
  Pacer pacer(budget, config_.solve);
  ++runs_;
  try {
    const int64_t planned = budget.simulations > 0 ? budget.simulations : 1024;
    for (auto& tree : trees_) {
      tree->begin_run(runs_, planned / static_cast<int64_t>(trees_.size()));
    }
    switch (config_.parallelism) {
      case Parallelism::kSerial: run_serial(*trees_[0], descent(0), evaluator, pacer); break;
      case Parallelism::kRoot: run_root(evaluator, budget, pacer); break;
      case Parallelism::kLeaf: run_leaf(evaluator, pacer); break;
      case Parallelism::kTree: run_tree(evaluator, pacer); break;
      case Parallelism::kDeterministic: run_deterministic(evaluator, pacer); break;
      case Parallelism::kBatched: break;  // the constructor refuses it
    }
  } catch (...) {
    reset_after_error();
    throw;
  }
  extra_.seconds = pacer.seconds();
  stop_ = pacer.stop();
  return result();
}

template <GameState S, class P>
template <class E>
void Search<S, P>::run_serial(Tree<S, P>& tree, Descent& d, E& evaluator, Pacer& pacer) {
  uint64_t simulation = simulation_;
  bool more = !root_is_done(tree, pacer);
  while (more) {
    const Outcome outcome = tree.template descend<Access::kPlain>(d, simulation++, is_eager<E>());
    if (outcome == Outcome::kLeaf) {
      evaluate(evaluator, {&d.item, 1}, d.counters);
    }
    tree.template finish<Access::kPlain>(d);
    if (tree.full()) [[unlikely]] {
      make_room(tree, pacer, d.counters);
    }
    more = pacer.go_on(1);
    if (more && (pacer.solve() ? outcome == Outcome::kTerminal : pacer.wants_leader())) {
      more = !root_is_done(tree, pacer);
    }
  }
  if (trees_.size() == 1) {
    simulation_ = simulation;
  }
}

template <GameState S, class P>
template <class E>
void Search<S, P>::run_root(E& evaluator, const Budget& budget, Pacer& pacer) {
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
template <class E>
void Search<S, P>::run_leaf(E& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  Descent& d = descent(0);
  std::vector<ReturnsOf<S>> values;
  bool more = !root_is_done(tree, pacer);
  while (more) {
    const Outcome outcome = tree.template descend<Access::kPlain>(d, simulation_++, is_eager<E>());
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
template <class E>
void Search<S, P>::evaluate_parallel(E& evaluator, std::span<EvalItem<S>> items) {
  const auto count = static_cast<int64_t>(items.size());
  if (is_thread_safe<E>() && pool_ != nullptr && count > 1) {
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

// All threads descend in one tree. The pacer is asked once for some tens of microseconds of work. Where simulations are short
// and the tree has grown some, the threads work by subtrees (tree_claim.h): what a path costs in atomics would otherwise cost
// more than the second thread brings.
template <GameState S, class P>
template <class E>
void Search<S, P>::run_tree(E& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  descent(2 * static_cast<size_t>(config_.threads) - 1);
  std::mutex mutex;
  bool stopped = root_is_done(tree, pacer);
  constexpr uint32_t kClaimFrom = 2048;  // visits of the root
  constexpr int64_t kShort = 2;          // simulations of the pacer's share
  std::atomic<bool> failed = false;
  bool by_subtrees = false;
  bool change_over = false;
  int64_t under_way = 0;
  // False where another thread has the leaf.
  const auto simulate = [&](Descent& d, uint64_t simulation) {
    const Outcome outcome = tree.template descend<Access::kShared>(d, simulation, is_eager<E>());
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
  // The root gets its block before the others start: who met it half made would only evaluate the root once more.
  while (!stopped && tree.root_block() <= kPending && !tree.full()) {
    simulate(*descents_[0], simulation_++);
    stopped = !pacer.go_on(1) || root_is_done(tree, pacer);
  }
  tree.retire(*descents_[0]);
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
        if (!by_subtrees && !is_eager<E>() && tree.claims() && share >= kShort &&
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

template <GameState S, class P>
template <class E>
void Search<S, P>::run_deterministic(E& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  bool more = !root_is_done(tree, pacer);
  while (more) {
    const int64_t leaves = std::min(config_.batch, pacer.left());
    const uint64_t before = counters().simulations;
    gather_leaves(static_cast<size_t>(leaves), static_cast<size_t>(leaves), is_eager<E>());
    evaluate_parallel(evaluator, items_);
    scatter({items_});
    make_room(tree, pacer, extra_);
    more = pacer.go_on(static_cast<int64_t>(counters().simulations - before)) &&
           !root_is_done(tree, pacer);
  }
}

// Descends until there are `max_leaves` leaves, or as many collisions as allowed; at most `max_finished` descents end in a
// leaf or in a terminal state. Fills items_ and gathered_.
template <GameState S, class P>
void Search<S, P>::gather_leaves(size_t max_leaves, size_t max_finished, bool eager) {
  Tree<S, P>& tree = *trees_[0];
  const auto max_collisions =
      config_.max_collisions > 0 ? static_cast<size_t>(config_.max_collisions) : max_leaves;
  size_t collisions = 0;
  size_t finished = 0;
  items_.clear();
  while (gathered_ < max_leaves && finished < max_finished && collisions < max_collisions) {
    Descent& d = descent(gathered_);
    const Outcome outcome = tree.template descend<Access::kTracked>(d, simulation_++, eager);
    if (outcome == Outcome::kCollision) {
      tree.template abandon<Access::kTracked>(d);
      ++collisions;
      continue;
    }
    ++finished;
    if (outcome == Outcome::kTerminal) {
      tree.template finish<Access::kTracked>(d);
      continue;
    }
    ++gathered_;
    items_.push_back(d.item);
  }
}

template <GameState S, class P>
size_t Search<S, P>::gather(EvalBatch<S>& batch, size_t max_leaves, bool with_priors) {
  check(config_.parallelism != Parallelism::kRoot,
        "search: gather() works on one tree; this search has several");
  check(trees_[0]->has_root(), "search: gather() without a root; call set_root() first");
  check(trees_[0]->root().player() != kTerminal, "search: gather() on a finished game");
  check(gathered_ == 0, "search: gather() before the last batch came back to scatter()");
  check(max_leaves > 0, "search: gather() of 0 leaves");
  Tree<S, P>& tree = *trees_[0];
  if (tree.root_visits() == 0) {
    tree.begin_run(++runs_, 1024);
  }
  if (tree.wants_room()) {
    tree.prune();
    ++extra_.prunings;
  }
  try {
    gather_leaves(max_leaves, 4 * max_leaves, (ColumnsOf<P>::kPrior && with_priors) || P::kGumbel);
  } catch (...) {
    reset_after_error();
    throw;
  }
  batch.items = items_;
  return gathered_;
}

template <GameState S, class P>
void Search<S, P>::scatter(const EvalBatch<S>& batch) {
  check(batch.items.size() == gathered_, "search: scatter() of {} leaves; {} were gathered",
        batch.items.size(), gathered_);
  try {
    for (size_t i = 0; i < batch.items.size(); ++i) {
      descents_[i]->item.values = batch.items[i].values;
      trees_[0]->template finish<Access::kTracked>(*descents_[i]);
    }
  } catch (...) {
    reset_after_error();
    throw;
  }
  gathered_ = 0;
}

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
  result.principal_variation = first.principal_variation();
  for (const auto& tree : trees_) {
    result.nodes += tree->count_nodes();
    result.tree_bytes += tree->used_bytes();
  }
  if (trees_.size() > 1) {
    merge_trees(result);
  }
  uint64_t visits = 0;
  std::vector<FinalEdge> edges;
  for (const RootEdge<A>& e : result.edges) {
    edges.push_back({static_cast<double>(e.visits), e.value, e.prior, e.proven});
    visits += e.visits;
  }
  if (visits > 0 && first.root().player() >= 0) {
    const auto gumbel = first.gumbel_edge();
    Random rng = Random(config_.seed, ~uint64_t{0}).split(runs_);
    const size_t chosen =
        gumbel ? *gumbel
               : typename P::Final(config_).choose(edges, max_return<S>(), min_return<S>(), rng);
    result.action = result.edges[chosen].action;
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
      const uint32_t visits = same->visits + other.visits;
      if (same->proven || other.proven) {
        same->value = same->proven ? same->value : other.value;
        same->proven = true;
      } else if (visits > 0) {
        same->value = (same->value * same->visits + other.value * other.visits) / visits;
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
    value += e.value * e.visits;
    visits += e.visits;
  }
  for (RootEdge<A>& e : result.edges) {
    e.weight = visits > 0 ? e.visits / visits : 0;
  }
  if (!result.proven && visits > 0) {
    result.value = value / visits;
  }
}

}  // namespace mstrain::mcts
