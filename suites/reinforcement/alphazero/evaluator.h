// The network as an evaluator of searches: one batch of leaves of many games, shared out to threads.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/thread_pool.h"
#include "core/runtime/context.h"
#include "core/tensor/jit.h"
#include "mcts/any_evaluator.h"
#include "mcts/search/eval_cache.h"
#include "suites/reinforcement/alphazero/network.h"

namespace mstrain::alphazero {

// What ends games that nobody wants any more.
class Stopped final : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// A batch is cut into parts of a few fixed sizes, each computed by one thread with a program of its own: what comes out does
// not depend on how many threads there are. One call of evaluate() at a time.
class NetworkEvaluator {
 public:
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = false;

  // Computes on the device of the current context. `game` must outlive it.
  NetworkEvaluator(const BoardGame& game, const PolicyValueNetwork& network, int threads);

  void set_params(Params params) { params_ = std::move(params); }
  // From then on evaluate() throws Stopped once `stop`, which must outlive it, is set.
  void heed(const std::atomic<bool>& stop) { stop_ = &stop; }
  // Values of the players, and the policy over the actions that an item lists.
  void evaluate(mcts::EvalBatch<AnyGame>& batch);

  int64_t evaluations() const { return evaluations_; }
  // Summed up over the threads.
  double busy_seconds() const { return busy_seconds_; }
  int threads() const { return pool_.size() + 1; }

 private:
  using Forward = std::function<PolicyValue(const Params&, const Tensor& x_bchw)>;
  // A thread's own context and programs, one for each number of rows.
  struct Worker {
    explicit Worker(const Context& of);
    Context context;
    std::map<int64_t, Jit<Forward>> forward;
  };
  void compute(Worker& worker, std::span<mcts::EvalItem<AnyGame>> items, int64_t rows) const;
  Worker& take();

  const BoardGame& game_;
  PolicyValueNetwork network_;
  Params params_;
  const std::atomic<bool>* stop_ = nullptr;
  ThreadPool pool_;
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  int64_t evaluations_ = 0;
  double busy_seconds_ = 0;
};

// The same with a memory of positions, as searches take it.
class CachingEvaluator {
 public:
  // `entries` 0: nothing is kept.
  CachingEvaluator(NetworkEvaluator& network, const BoardGame& game, int64_t entries);
  void clear();
  mcts::AnyEvaluator<AnyGame>& any() { return *any_; }
  // Positions that were not computed because they had been before.
  int64_t hits() const { return cache_ ? cache_->hits() : 0; }

 private:
  std::unique_ptr<mcts::EvalCache> cache_;
  std::unique_ptr<mcts::CachedEvaluator<NetworkEvaluator>> cached_;
  std::unique_ptr<mcts::AnyEvaluator<AnyGame>> any_;
};

}  // namespace mstrain::alphazero
