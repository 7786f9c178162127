// AbiSearch over one kind of state; each kind is compiled in a file of its own.
#pragma once

#include "mcts/c_api/abi_game.h"

namespace mstrain::mcts {

// The C callback as an evaluator.
template <class S, bool kWithPriors>
struct AbiEvaluator {
  static constexpr bool kPriors = kWithPriors;
  static constexpr bool kThreads = false;
  mst_mcts_evaluate function;
  void* context;
  std::vector<const void*> states{};
  std::vector<float> observations{};
  std::vector<float> values{};
  std::vector<float> priors{};

  static void observe(const S& state, float* out) {
    const mst_mcts_game& game = state.game();
    if (const int code = game.observe(game.context, state.data(), state.player(), out); code != 0) {
      throw GameError(fmt::format("game: observe returned {}", code));
    }
  }

  // One row of answers into a leaf.
  static void take(EvalItem<S>& item, const float* values, const float* priors) {
    const mst_mcts_game& game = item.state->game();
    item.values = {};
    std::copy_n(values, game.players, item.values.begin());
    for (const float v : item.values) {
      if (!std::isfinite(v)) {
        throw EvaluatorError(fmt::format("evaluator: a value is {}", v));
      }
    }
    for (size_t a = 0; a < item.actions.size(); ++a) {
      const float p = priors == nullptr ? 1.0F : priors[item.actions[a]];
      if (!(p >= 0 && std::isfinite(p))) {
        throw EvaluatorError(
            fmt::format("evaluator: the prior of action {} is {}", item.actions[a], p));
      }
      item.priors[a] = p;
    }
  }

  void evaluate(EvalBatch<S>& batch) {
    const mst_mcts_game& game = batch.items[0].state->game();
    const size_t count = batch.items.size();
    states.clear();
    observations.resize(count * game.observation_size);
    for (size_t i = 0; i < count; ++i) {
      states.push_back(batch.items[i].state->data());
      if (game.observation_size > 0) {
        observe(*batch.items[i].state, observations.data() + i * game.observation_size);
      }
    }
    // NaN shows where the callback did not write.
    values.assign(count * game.players, std::numeric_limits<float>::quiet_NaN());
    priors.assign(kWithPriors ? count * game.max_actions : 0,
                  std::numeric_limits<float>::quiet_NaN());
    const int code = function(context, static_cast<uint32_t>(count), states.data(),
                              game.observation_size > 0 ? observations.data() : nullptr,
                              values.data(), kWithPriors ? priors.data() : nullptr);
    if (code != 0) {
      throw EvaluatorError(fmt::format("evaluator: the callback returned {}", code));
    }
    for (size_t i = 0; i < count; ++i) {
      take(batch.items[i], values.data() + i * game.players,
           kWithPriors ? priors.data() + i * game.max_actions : nullptr);
    }
  }
};

// Random play: the game's own rollout where it has one, move by move where the search asks for the moves (RAVE).
template <class S>
struct AbiRollout {
  static constexpr bool kPriors = false;
  static constexpr bool kThreads = true;
  float discount = 1;
  void evaluate(EvalBatch<S>& batch) {
    for (EvalItem<S>& item : batch.items) {
      const mst_mcts_game& game = item.state->game();
      if (game.rollout == nullptr || item.trace != nullptr) {
        item.values = random_rollout(*item.state, item.rng, discount, item.trace);
        continue;
      }
      item.values = {};
      if (const int code = game.rollout(game.context, item.state->data(), item.rng.next_u64(),
                                        item.values.data());
          code != 0) {
        throw GameError(fmt::format("game: rollout returned {}", code));
      }
    }
  }
};

template <class S>
class AbiSearchOf final : public AbiSearch {
 public:
  AbiSearchOf(const mst_mcts_game& table, const std::string& policy, const SearchConfig& config)
      : search_(SearchRegistry<S>().make(policy, config)),
        discount_(static_cast<float>(config.discount)) {
    game = table;
  }

  void set_root(const void* state) override { search_->set_root(S(game, state)); }
  void advance(uint32_t action) override { search_->advance(action); }
  void run(const Budget& budget, mst_mcts_evaluate evaluate, void* context,
           bool with_priors) override {
    const auto with = [&](auto evaluator) {
      AnyEvaluator<S> any(evaluator);
      search_->run(any, budget);
    };
    if (evaluate == nullptr) {
      with(AbiRollout<S>{discount_});
    } else if (with_priors) {
      with(AbiEvaluator<S, true>{evaluate, context});
    } else {
      with(AbiEvaluator<S, false>{evaluate, context});
    }
  }
  uint32_t gather(uint32_t max_leaves, const void** states, float* observations) override {
    search_->gather(batch_, max_leaves);
    for (size_t i = 0; i < batch_.items.size(); ++i) {
      if (states != nullptr) {
        states[i] = batch_.items[i].state->data();
      }
      if (observations != nullptr && game.observation_size > 0) {
        AbiEvaluator<S, true>::observe(*batch_.items[i].state,
                                       observations + i * game.observation_size);
      }
    }
    return gathered();
  }
  uint32_t gathered() const override { return static_cast<uint32_t>(batch_.items.size()); }
  void scatter(const float* values, const float* priors) override {
    for (size_t i = 0; i < batch_.items.size(); ++i) {
      AbiEvaluator<S, true>::take(batch_.items[i], values + i * game.players,
                                  priors == nullptr ? nullptr : priors + i * game.max_actions);
    }
    search_->scatter(batch_);
    batch_.items = {};
  }
  mst_mcts_summary summary() const override {
    const auto r = search_->result();
    return {.best_action = r.action ? static_cast<int64_t>(*r.action) : -1,
            .value = r.value,
            .proven = r.proven ? 1 : 0,
            .edges = static_cast<uint32_t>(r.edges.size()),
            .simulations = r.counters.simulations,
            .evaluations = r.counters.evaluations,
            .collisions = r.counters.collisions,
            .nodes = r.nodes,
            .tree_bytes = r.tree_bytes,
            .seconds = r.counters.seconds};
  }
  std::vector<mst_mcts_edge> edges() const override {
    std::vector<mst_mcts_edge> out;
    for (const auto& e : search_->result().edges) {
      out.push_back({e.action, e.visits, e.value, e.prior, e.weight, e.proven ? 1 : 0});
    }
    return out;
  }
  std::vector<uint32_t> principal_variation() const override {
    return search_->result().principal_variation;
  }

 private:
  std::unique_ptr<AnySearch<S>> search_;
  float discount_;
  EvalBatch<S> batch_;
};

template <class S>
std::unique_ptr<AbiSearch> make_abi_search(const mst_mcts_game& game, const std::string& policy,
                                           const SearchConfig& config) {
  return std::make_unique<AbiSearchOf<S>>(game, policy, config);
}

}  // namespace mstrain::mcts
