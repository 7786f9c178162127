// Evaluators that need no network. Your own is a class with evaluate(EvalBatch<S>&); see eval_batch.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "mcts/chance.h"
#include "mcts/eval_batch.h"

namespace mstrain::mcts {

// Every state is worth 0, every action is as good as another.
struct UniformEvaluator {
  static constexpr bool kPriors = false;
  static constexpr bool kThreads = true;
  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    for (EvalItem<S>& item : batch.items) {
      item.values = {};
    }
  }
};

// One game of uniformly random moves from `state` on; notes (player, action) in `trace` where given. Games longer than
// `max_moves` are cut and count as returns() of zero.
template <GameState S>
ReturnsOf<S> random_play(const S& state, Random& rng, float discount = 1,
                         std::vector<std::pair<int, ActionOf<S>>>* trace = nullptr,
                         int64_t max_moves = 1 << 20) {
  thread_local ActionBufferOf<S> actions;
  thread_local ChanceBufferOf<S> outcomes;
  S now = state;
  [[maybe_unused]] const bool samples = samples_actions(state);
  [[maybe_unused]] const bool pays = pays_rewards(state);
  ReturnsOf<S> total{};
  float weight = 1;
  for (int64_t move = 0; move < max_moves; ++move) {
    const int player = now.player();
    if (player == kTerminal) {
      const ReturnsOf<S> last = now.returns();
      for (int p = 0; p < S::kPlayers; ++p) {
        total[p] += weight * last[p];
      }
      break;
    }
    ActionOf<S> taken{};
    if constexpr (HasSampleAction<S>) {
      if (player != kChance && samples) {
        taken = now.sample_action(rng);
      }
    }
    if (player == kChance) {
      taken = draw_chance(now, outcomes, rng);
    } else if (!samples) {
      actions.clear();
      now.legal(actions);
      check(!actions.empty(), "game: player {} is to move and has no legal action", player);
      taken = actions[rng.below(static_cast<uint32_t>(actions.size()))];
    }
    if (trace != nullptr) {
      trace->emplace_back(player, taken);
    }
    now.apply(taken);
    if constexpr (HasRewards<S>) {
      const ReturnsOf<S> paid = pays ? now.rewards() : ReturnsOf<S>{};
      for (int p = 0; p < S::kPlayers; ++p) {
        total[p] += weight * paid[p];
      }
    }
    weight *= discount;
  }
  return total;
}

// The same, by the game's own rollout() where there is one and no trace is wanted.
template <GameState S>
ReturnsOf<S> random_rollout(const S& state, Random& rng, float discount = 1,
                            std::vector<std::pair<int, ActionOf<S>>>* trace = nullptr,
                            int64_t max_moves = 1 << 20) {
  if constexpr (HasRollout<S>) {
    if (trace == nullptr && discount == 1) {
      return state.rollout(rng);
    }
  }
  return random_play(state, rng, discount, trace, max_moves);
}

// The mean of `rollouts` random games.
struct RandomRollout {
  static constexpr bool kPriors = false;
  static constexpr bool kThreads = true;
  int rollouts = 1;
  float discount = 1;
  int64_t max_moves = 1 << 20;

  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    for (EvalItem<S>& item : batch.items) {
      Random rng = item.rng;
      item.values = random_rollout(*item.state, rng, discount, item.trace, max_moves);
      for (int i = 1; i < rollouts; ++i) {
        const ReturnsOf<S> more = random_rollout(*item.state, rng, discount, item.trace, max_moves);
        for (int p = 0; p < S::kPlayers; ++p) {
          item.values[p] += more[p];
        }
      }
      if (rollouts > 1) {
        for (float& value : item.values) {
          value /= static_cast<float>(rollouts);
        }
      }
    }
  }
};

// Priors (and values) of another evaluator, values mixed with random rollouts: (1 - mix) * value + mix * rollout.
template <class E>
struct RolloutWithPriors {
  static constexpr bool kPriors = gives_priors<E>();
  static constexpr bool kThreads = is_thread_safe<E>();
  E& evaluator;
  float mix = 0.5F;
  RandomRollout rollout{};

  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    rollout.evaluate(batch);
    std::vector<ReturnsOf<S>> played;
    played.reserve(batch.items.size());
    for (const EvalItem<S>& item : batch.items) {
      played.push_back(item.values);
    }
    evaluator.evaluate(batch);
    for (size_t i = 0; i < played.size(); ++i) {
      for (int p = 0; p < S::kPlayers; ++p) {
        batch.items[i].values[p] = (1 - mix) * batch.items[i].values[p] + mix * played[i][p];
      }
    }
  }
};

// A function over observations: what a network in any framework looks like. It reads one row of S::kObservationSize floats for
// each state, seen by its player to move, and appends S::kPlayers values a row (of player 0, player 1, ...) and S::kMaxActions
// priors a row, or no priors at all. Anything else in size is an Error.
struct NetworkInput {
  std::span<const float> observations;
  std::span<const int>
      movers;  // of each row, for networks whose values begin with the player to move
};
struct NetworkOutput {
  std::vector<float> values;
  std::vector<float> priors;
};
using NetworkFunction = std::function<void(const NetworkInput& in, NetworkOutput& out)>;

struct CallbackEvaluator {
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = false;
  NetworkFunction function;
  std::vector<float> observations{};
  std::vector<int> movers{};
  NetworkOutput output{};

  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    static_assert(HasObserve<S> && HasDenseActions<S>,
                  "CallbackEvaluator needs observe() and kMaxActions");
    constexpr auto kSize = static_cast<size_t>(S::kObservationSize);
    const size_t count = batch.items.size();
    observations.resize(count * kSize);
    movers.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const S& state = *batch.items[i].state;
      movers[i] = state.player();
      state.observe(movers[i], std::span(observations).subspan(i * kSize, kSize));
    }
    output.values.clear();
    output.priors.clear();
    function({observations, movers}, output);
    check(output.values.size() == count * S::kPlayers,
          "evaluator: {} values for a batch of {} with {} players; {} expected",
          output.values.size(), count, S::kPlayers, count * S::kPlayers);
    check(output.priors.empty() || output.priors.size() == count * S::kMaxActions,
          "evaluator: {} priors for a batch of {} with {} actions; {} expected",
          output.priors.size(), count, S::kMaxActions, count * S::kMaxActions);
    for (size_t i = 0; i < count; ++i) {
      EvalItem<S>& item = batch.items[i];
      std::copy_n(output.values.begin() + static_cast<ptrdiff_t>(i * S::kPlayers), S::kPlayers,
                  item.values.begin());
      for (size_t a = 0; a < item.actions.size(); ++a) {
        const auto action = static_cast<size_t>(item.actions[a]);
        check(action < S::kMaxActions, "game: action {} is not below kMaxActions {}", action,
              S::kMaxActions);
        item.priors[a] = output.priors.empty() ? 1.0F : output.priors[i * S::kMaxActions + action];
      }
    }
  }
};

}  // namespace mstrain::mcts
