// An evaluator behind a function: what a search asks wherever a call more costs nothing, so that it is not compiled for each one.
#pragma once

#include <functional>
#include <mutex>

#include "mcts/eval_batch.h"

namespace mstrain::mcts {

// Any evaluator, which must outlive it. Serialised where it is not thread-safe.
template <GameState S>
class AnyEvaluator {
 public:
  template <Evaluator<S> E>
  explicit AnyEvaluator(E& evaluator)
      : function_([&evaluator](EvalBatch<S>& batch) { evaluator.evaluate(batch); }),
        priors_(gives_priors(evaluator)),
        threads_(is_thread_safe(evaluator)) {}

  bool priors() const { return priors_; }
  bool threads() const { return threads_; }
  void evaluate(EvalBatch<S>& batch) {
    if (threads_) {
      function_(batch);
    } else {
      const std::lock_guard lock(mutex_);
      function_(batch);
    }
  }

 private:
  std::function<void(EvalBatch<S>&)> function_;
  bool priors_;
  bool threads_;
  std::mutex mutex_;
};

}  // namespace mstrain::mcts
