// A search for one game: run() for those who want an answer, gather()/scatter() for hosts that own the loop.
//
//   Search<ConnectFour> search({.seed = 1});
//   RandomRollout rollout;
//   auto result = search.run(ConnectFour{}, rollout, Budget::sims(10000));
//   search.advance(*result.action);                      // keeps the subtree
//   result = search.run(rollout, Budget::milliseconds(50));
//
// or, with an evaluator that the search is not to call:
//
//   search.set_root(ConnectFour{});
//   while (search.gather(batch, 64, Budget::sims(800)) > 0) {
//     ...                                                 // batch.items: state -> values, priors
//     search.scatter(batch);
//   }
//
// A run uses the threads and the kind of parallelism of its configuration (config.h). Only one thread may call into a Search
// at a time. Exceptions of the game or of the evaluator come out of run() and scatter(); the tree is then empty, and the
// search may be used again from set_root().
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/thread_pool.h"
#include "mcts/any_evaluator.h"
#include "mcts/search/pacer.h"
#include "mcts/search/tree.h"

namespace mstrain::mcts {

template <GameState S, class P = UctPolicies>
class Search {
 public:
  using A = ActionOf<S>;
  using Result = SearchResult<A, S::kPlayers>;
  using Descent = typename Tree<S, P>::Descent;

  explicit Search(const SearchConfig& config) : config_(config) {
    check_search(config);
    check(!(config.parallelism == Parallelism::kTree && P::kGumbel),
          "search.parallelism: tree: Gumbel roots need serial, root or deterministic");
    check(config.parallelism != Parallelism::kBatched,
          "search.parallelism: batched searches many roots at once; one root needs serial, root, "
          "leaf, tree or deterministic (many: BatchSearch)");
    const bool several = config.parallelism == Parallelism::kRoot;
    const int64_t trees = several ? (config.trees > 0 ? config.trees : config.threads) : 1;
    for (int64_t i = 0; i < trees; ++i) {
      trees_.push_back(std::make_unique<Tree<S, P>>(config, i));
    }
    if (config.parallelism != Parallelism::kSerial && config.threads > 1) {
      pool_ = std::make_unique<ThreadPool>(static_cast<int>(config.threads - 1));
    }
  }

  // Forgets everything and starts at `root`: what follows depends on the seed alone, not on earlier searches.
  void set_root(const S& root) {
    check(!(config_.parallelism == Parallelism::kTree && Tree<S, P>::grows(root)),
          "search.parallelism: tree: sampled actions need serial, root or deterministic");
    gathered_ = 0;
    more_ = false;
    simulation_ = runs_ = 0;
    begin_root();
    for (auto& d : descents_) {  // what an error left there
      d->gathered.clear();
      d->gathered_roots = 0;
      d->fresh_edges = 0;
      d->chunk = {};
      d->memory = &d->chunk;
    }
    for (auto& tree : trees_) {
      tree->set_root(root);
    }
  }

  // Plays an action at the root (also a chance outcome) and keeps what is known below it.
  void advance(A action) {
    check(gathered_ == 0, "search: advance() between gather() and scatter()");
    for (auto& tree : trees_) {
      tree->advance(action);
    }
    begin_root();
  }

  // Searches from `root` with an empty tree, or from the present root with what is known.
  template <Evaluator<S> E>
  Result run(const S& root, E& evaluator, const Budget& budget) {
    set_root(root);
    return run(evaluator, budget);
  }
  template <Evaluator<S> E>
  Result run(E& evaluator, const Budget& budget);
  Result run(AnyEvaluator<S>& evaluator, const Budget& budget);

  // The same run in steps: up to `max_leaves` different leaves of the tree, under virtual loss, and none where the run is over.
  // Follow with scatter() of the same batch. The first call for a root (of set_root() or advance()) begins its run; `budget`
  // counts from there, and a run that is over goes on where a later call brings a larger one. `with_priors`: the items ask
  // for priors. With one leaf at a time this is what run() does serially; with `max_leaves` what it does in deterministic batches.
  size_t gather(EvalBatch<S>& batch, size_t max_leaves, const Budget& budget,
                bool with_priors = ColumnsOf<P>::kPrior);
  void scatter(const EvalBatch<S>& batch);

  // What is known now.
  Result result() const;
  const Tree<S, P>& tree(size_t i = 0) const { return *trees_[i]; }
  SearchCounters counters() const;
  const SearchConfig& config() const { return config_; }

 private:
  static bool is_eager(bool priors) { return (ColumnsOf<P>::kPrior && priors) || P::kGumbel; }

  using Any = AnyEvaluator<S>;

  template <class E>
  static void evaluate(E& evaluator, std::span<EvalItem<S>> items, SearchCounters& counters) {
    EvalBatch<S> batch{items};
    evaluator.evaluate(batch);
    counters.evaluations += items.size();
    ++counters.batches;
  }

  Descent& descent(size_t i) {
    while (descents_.size() <= i) {
      descents_.push_back(std::make_unique<Descent>());
    }
    return *descents_[i];
  }

  template <class Spend>
  Result run_by(const Budget& budget, const Spend& spend);
  template <class E>
  void run_serial(Tree<S, P>& tree, Descent& d, E& evaluator, Pacer& pacer);
  void run_root(Any& evaluator, const Budget& budget, Pacer& pacer);
  void run_leaf(Any& evaluator, Pacer& pacer);
  void run_tree(Any& evaluator, Pacer& pacer);
  void run_tree_in_batches(Any& evaluator, Pacer& pacer);
  void simulate_root(Any& evaluator, Pacer& pacer, bool& stopped);
  void run_deterministic(Any& evaluator, Pacer& pacer);
  void evaluate_parallel(Any& evaluator, std::span<EvalItem<S>> items);
  // No run has looked at the root.
  void begin_root() {
    pacer_.reset();
    stop_ = Stop::kSimulations;
    forget_counters();
  }
  void forget_counters() {
    for (auto& d : descents_) {
      d->counters = {};
    }
    extra_ = {};
  }
  void begin_run(const Budget& budget);
  void gather_round(int64_t most, bool eager);
  template <Access kAccess>
  void gather_leaves(size_t most, bool eager);
  void scatter_round(std::span<const EvalItem<S>> items);
  bool goes_on_after_round(Pacer& pacer);
  void merge_trees(Result& result) const;
  void reset_after_error() {
    const S root = trees_[0]->root();
    set_root(root);
  }

  SearchConfig config_;
  std::vector<std::unique_ptr<Tree<S, P>>> trees_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<std::unique_ptr<Descent>> descents_;
  std::vector<EvalItem<S>> items_;
  size_t gathered_ = 0;
  int64_t finished_ = 0;        // descents of the present round
  bool plain_ = false;          // it has one leaf, so nothing is marked
  std::optional<Pacer> pacer_;  // of a run in steps
  bool more_ = false;           // it goes on
  uint64_t simulation_ = 0;     // number of the next descent: keys its random numbers
  uint64_t runs_ = 0;
  SearchCounters extra_;  // of batches
  Stop stop_ = Stop::kSimulations;
};

}  // namespace mstrain::mcts

#include "mcts/search/search_result.h"   // IWYU pragma: export
#include "mcts/search/search_run.h"      // IWYU pragma: export
#include "mcts/search/search_steps.h"    // IWYU pragma: export
#include "mcts/search/search_threads.h"  // IWYU pragma: export
