#include "mcts/c_api/abi_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace mstrain::mcts {
namespace {

// One row of answers into a leaf.
void take(EvalItem<AnyGame>& item, const float* values, const float* priors) {
  item.values = {};
  std::copy_n(values, item.state->players(), item.values.begin());
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

// The C callback as an evaluator.
struct AbiEvaluator {
  mst_mcts_evaluate function;
  void* context;
  bool with_priors;
  std::vector<const void*> states{};
  std::vector<float> observations{};
  std::vector<float> values{};
  std::vector<float> priors_of{};

  bool priors() const { return with_priors; }

  void evaluate(EvalBatch<AnyGame>& batch) {
    const mst_mcts_game& game = abi_state(*batch.items[0].state).table();
    const size_t count = batch.items.size();
    states.clear();
    observations.resize(count * game.observation_size);
    for (size_t i = 0; i < count; ++i) {
      const AbiState& state = abi_state(*batch.items[i].state);
      states.push_back(state.data());
      if (game.observation_size > 0) {
        state.observe(observations.data() + i * game.observation_size);
      }
    }
    // NaN shows where the callback did not write.
    constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
    values.assign(count * game.players, kNothing);
    priors_of.assign(with_priors ? count * game.max_actions : 0, kNothing);
    const int code = function(context, static_cast<uint32_t>(count), states.data(),
                              game.observation_size > 0 ? observations.data() : nullptr,
                              values.data(), with_priors ? priors_of.data() : nullptr);
    if (code != 0) {
      throw EvaluatorError(fmt::format("evaluator: the callback returned {}", code));
    }
    for (size_t i = 0; i < count; ++i) {
      take(batch.items[i], values.data() + i * game.players,
           with_priors ? priors_of.data() + i * game.max_actions : nullptr);
    }
  }
};

}  // namespace

AbiSearch::AbiSearch(const mst_mcts_game& table, const std::string& policy,
                     const SearchConfig& config)
    : game_(std::make_unique<AbiGame>(table)),
      search_(any_searches().make(policy, config)),
      discount_(static_cast<float>(config.discount)) {
  check(!config.solve || table.min_return < table.max_return,
        "search.solve: nothing is proven without a range of results; min_return and max_return of "
        "the game are {} and {}",
        table.min_return, table.max_return);
  check(policy != "graph" || table.hash != nullptr,
        "search: graph needs the hash callback, which games that depend on earlier positions lack");
  check(policy != "information_set" || (table.determinize && table.information_key),
        "search: information_set needs the callbacks determinize and information_key");
}

void AbiSearch::set_root(const void* state) {
  batch_.items = {};
  search_->set_root(AnyGame(std::make_unique<AbiState>(*game_, state)));
  has_root_ = true;
}

void AbiSearch::run(const Budget& budget, mst_mcts_evaluate evaluate, void* context,
                    bool with_priors) {
  if (evaluate == nullptr) {
    RandomRollout rollout{.discount = discount_};
    AnyEvaluator<AnyGame> any(rollout);
    search_->run(any, budget);
  } else {
    AbiEvaluator evaluator{evaluate, context, with_priors};
    AnyEvaluator<AnyGame> any(evaluator);
    search_->run(any, budget);
  }
}

uint32_t AbiSearch::gather(const Budget& budget, uint32_t max_leaves, const void** states,
                           float* observations) {
  search_->gather(batch_, max_leaves, budget);
  for (size_t i = 0; i < batch_.items.size(); ++i) {
    const AbiState& state = abi_state(*batch_.items[i].state);
    if (states != nullptr) {
      states[i] = state.data();
    }
    if (observations != nullptr && table().observation_size > 0) {
      state.observe(observations + i * table().observation_size);
    }
  }
  return gathered();
}

void AbiSearch::scatter(const float* values, const float* priors) {
  for (size_t i = 0; i < batch_.items.size(); ++i) {
    take(batch_.items[i], values + i * table().players,
         priors == nullptr ? nullptr : priors + i * table().max_actions);
  }
  search_->scatter(batch_);
  batch_.items = {};
}

}  // namespace mstrain::mcts
