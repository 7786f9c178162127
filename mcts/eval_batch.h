// What the search asks of an evaluator: always a batch, of one or more leaves.
#pragma once

#include <concepts>
#include <span>
#include <utility>
#include <vector>

#include "mcts/game.h"

namespace mstrain::mcts {

// One leaf. The search fills the first group, the evaluator the second.
template <class S>
struct EvalItem {
  const S* state = nullptr;  // never terminal, never a chance state
  std::span<const ActionOf<S>>
      actions{};  // the leaf's edges; empty where the search wants no priors
  Random rng{};   // for this leaf alone

  ReturnsOf<S> values{};      // expected result for each player from here on
  std::span<float> priors{};  // one for each action, >= 0; the search normalises them
  std::vector<std::pair<int, ActionOf<S>>>* trace =
      nullptr;  // where set: (player, action) of a rollout, in order
};

template <class S>
struct EvalBatch {
  std::span<EvalItem<S>> items;
};

// kPriors: it fills `priors` (else they are uniform). kThreads: evaluate() may be called by several threads at once. Where that is
// known at run time alone: members bool priors() const, bool threads() const.
template <class E, class S>
concept Evaluator = requires(E& evaluator, EvalBatch<S>& batch) {
  evaluator.evaluate(batch);
};

template <class E>
constexpr bool gives_priors() {
  if constexpr (requires { E::kPriors; }) {
    return E::kPriors;
  } else {
    return false;
  }
}

template <class E>
constexpr bool is_thread_safe() {
  if constexpr (requires { E::kThreads; }) {
    return E::kThreads;
  } else {
    return false;
  }
}

// True where the evaluator says by threads(), at run time, whether it is.
template <class E>
concept TellsThreads = requires(const E& e) {
  { e.threads() } -> std::same_as<bool>;
};
template <class E>
bool gives_priors(const E& evaluator) {
  if constexpr (requires {
                  { evaluator.priors() } -> std::same_as<bool>;
                }) {
    return evaluator.priors();
  } else {
    return gives_priors<E>();
  }
}

template <class E>
bool is_thread_safe(const E& evaluator) {
  if constexpr (TellsThreads<E>) {
    return evaluator.threads();
  } else {
    return is_thread_safe<E>();
  }
}

}  // namespace mstrain::mcts
