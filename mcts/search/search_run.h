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
void Search<S, P>::begin_run(const Budget& budget) {
  check(trees_[0]->has_root(), "search: a run without a root; call set_root() first");
  check(trees_[0]->root().player() != kTerminal, "search: a run on a finished game");
  for (auto& d : descents_) {
    d->counters = {};
  }
  extra_ = {};
  ++runs_;
  const int64_t planned = budget.simulations > 0 ? budget.simulations : 1024;
  for (auto& tree : trees_) {
    tree->begin_run(runs_, planned / static_cast<int64_t>(trees_.size()));
  }
}

template <GameState S, class P>
template <Evaluator<S> E>
typename Search<S, P>::Result Search<S, P>::run(E& evaluator, const Budget& budget) {
  check(gathered_ == 0, "search: run() between gather() and scatter()");
  Pacer pacer(budget, config_.solve);
  pacer_.reset();
  begin_run(budget);
  try {
    switch (config_.parallelism) {
      case Parallelism::kSerial: run_serial(*trees_[0], descent(0), evaluator, pacer); break;
      case Parallelism::kRoot: run_root(evaluator, budget, pacer); break;
      case Parallelism::kLeaf: run_leaf(evaluator, pacer); break;
      case Parallelism::kTree:
        if (is_thread_safe(evaluator)) {
          run_tree(evaluator, pacer);
        } else {
          run_tree_in_batches(evaluator, pacer);
        }
        break;
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
    const Outcome outcome =
        tree.template descend<Access::kPlain>(d, simulation_++, is_eager(gives_priors(evaluator)));
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
  if (pool_ != nullptr && count > 1 && is_thread_safe(evaluator)) {
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

// The root gets its block before several threads start: who met it half made would only evaluate the root once more.
template <GameState S, class P>
template <class E>
void Search<S, P>::simulate_root(E& evaluator, Pacer& pacer, bool& stopped) {
  Tree<S, P>& tree = *trees_[0];
  Descent& d = descent(0);
  while (!stopped && tree.root_block() <= kPending && !tree.full()) {
    if (tree.template descend<Access::kPlain>(
            d, simulation_++, is_eager(gives_priors(evaluator))) == Outcome::kLeaf) {
      evaluate(evaluator, {&d.item, 1}, d.counters);
    }
    tree.template finish<Access::kPlain>(d);
    stopped = !pacer.go_on(1) || root_is_done(tree, pacer);
  }
}

// All threads descend in one tree and gather leaves, which are evaluated at once; then each finishes its own. The descents of a
// thread share what it has taken from the arena.
template <GameState S, class P>
template <class E>
void Search<S, P>::run_tree_in_batches(E& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  const bool eager = is_eager(gives_priors(evaluator));
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
template <class E>
void Search<S, P>::run_tree(E& evaluator, Pacer& pacer) {
  Tree<S, P>& tree = *trees_[0];
  descent(2 * static_cast<size_t>(config_.threads) - 1);
  std::mutex mutex;
  const bool eager = is_eager(gives_priors(evaluator));
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

template <GameState S, class P>
template <class E>
void Search<S, P>::run_deterministic(E& evaluator, Pacer& pacer) {
  bool more = !root_is_done(*trees_[0], pacer);
  while (more) {
    gather_round(std::min(config_.batch, pacer.left()), is_eager(gives_priors(evaluator)));
    evaluate_parallel(evaluator, items_);
    scatter_round(items_);
    more = goes_on_after_round(pacer);
  }
}

// Descends until `most` descents have ended in a leaf or in a terminal state, or until there were as many collisions as
// allowed. Fills items_, gathered_ and finished_.
template <GameState S, class P>
void Search<S, P>::gather_round(int64_t most, bool eager) {
  plain_ = most == 1;
  finished_ = 0;
  items_.clear();
  if (plain_) {
    gather_leaves<Access::kPlain>(1, eager);
  } else {
    gather_leaves<Access::kTracked>(static_cast<size_t>(most), eager);
  }
}

template <GameState S, class P>
template <Access kAccess>
void Search<S, P>::gather_leaves(size_t most, bool eager) {
  Tree<S, P>& tree = *trees_[0];
  const auto max_collisions =
      config_.max_collisions > 0 ? static_cast<size_t>(config_.max_collisions) : most;
  size_t collisions = 0;
  while (static_cast<size_t>(finished_) < most && collisions < max_collisions) {
    Descent& d = descent(gathered_);
    const Outcome outcome = tree.template descend<kAccess>(d, simulation_++, eager);
    if (outcome == Outcome::kCollision) {
      tree.template abandon<kAccess>(d);
      ++collisions;
      continue;
    }
    ++finished_;
    if (outcome == Outcome::kTerminal) {
      tree.template finish<kAccess>(d);
      continue;
    }
    ++gathered_;
    items_.push_back(d.item);
  }
}

template <GameState S, class P>
void Search<S, P>::scatter_round(std::span<const EvalItem<S>> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    descents_[i]->item.values = items[i].values;
    if (plain_) {
      trees_[0]->template finish<Access::kPlain>(*descents_[i]);
    } else {
      trees_[0]->template finish<Access::kTracked>(*descents_[i]);
    }
  }
  gathered_ = 0;
}

template <GameState S, class P>
bool Search<S, P>::goes_on_after_round(Pacer& pacer) {
  make_room(*trees_[0], pacer, extra_);
  const bool more = pacer.go_on(finished_) && !root_is_done(*trees_[0], pacer);
  extra_.seconds = pacer.seconds();
  stop_ = pacer.stop();
  return more;
}

template <GameState S, class P>
size_t Search<S, P>::gather(EvalBatch<S>& batch, size_t max_leaves, const Budget& budget,
                            bool with_priors) {
  check(config_.parallelism != Parallelism::kRoot,
        "search: gather() works on one tree; this search has several");
  check(gathered_ == 0, "search: gather() before the last batch came back to scatter()");
  check(max_leaves > 0, "search: gather() of 0 leaves");
  batch.items = {};
  if (!pacer_) {
    Pacer pacer(budget, config_.solve);
    begin_run(budget);
    pacer_ = pacer;
    more_ = !root_is_done(*trees_[0], *pacer_);
    stop_ = pacer_->stop();
  } else if (budget != pacer_->budget()) {
    pacer_->limit(budget);
    more_ = pacer_->go_on(0) && !root_is_done(*trees_[0], *pacer_);
  }
  try {
    while (more_ && gathered_ == 0) {
      const auto leaves = static_cast<int64_t>(std::min<size_t>(max_leaves, INT32_MAX));
      gather_round(std::min(leaves, pacer_->left()), is_eager(with_priors));
      if (gathered_ == 0) {
        more_ = goes_on_after_round(*pacer_);
      }
    }
  } catch (...) {
    reset_after_error();
    throw;
  }
  batch.items = std::span(items_).first(gathered_);
  return gathered_;
}

template <GameState S, class P>
void Search<S, P>::scatter(const EvalBatch<S>& batch) {
  check(batch.items.size() == gathered_, "search: scatter() of {} leaves; {} were gathered",
        batch.items.size(), gathered_);
  if (gathered_ == 0) {
    return;
  }
  extra_.evaluations += gathered_;
  ++extra_.batches;
  try {
    scatter_round(batch.items);
  } catch (...) {
    reset_after_error();
    throw;
  }
  more_ = goes_on_after_round(*pacer_);
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
    result.tree_bytes += tree->used_bytes() + tree->total_bytes();
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
    const size_t chosen = gumbel
                              ? *gumbel
                              : typename P::Final(config_).choose(edges, max_return(first.root()),
                                                                  min_return(first.root()), rng);
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
      const uint64_t visits = same->visits + other.visits;
      if (same->proven || other.proven) {
        same->value = same->proven ? same->value : other.value;
        same->proven = true;
      } else if (visits > 0) {
        const auto own = static_cast<double>(same->visits);
        same->value += (other.value - same->value) * (1 - own / static_cast<double>(visits));
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
    value += e.value * static_cast<double>(e.visits);
    visits += static_cast<double>(e.visits);
  }
  for (RootEdge<A>& e : result.edges) {
    e.weight = visits > 0 ? static_cast<double>(e.visits) / visits : 0;
  }
  if (!result.proven && visits > 0) {
    result.value = value / visits;
  }
}

}  // namespace mstrain::mcts
