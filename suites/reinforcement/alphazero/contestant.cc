#include "suites/reinforcement/alphazero/contestant.h"

#include "core/base/error.h"
#include "mcts/any_search.h"

namespace mstrain::alphazero {
namespace {

class NetworkContestant final : public Contestant {
 public:
  NetworkContestant(std::string name, const AgentConfig& config,
                    mcts::AnyEvaluator<AnyGame>& evaluator, int64_t simulations)
      : name_(std::move(name)), config_(config), evaluator_(evaluator), simulations_(simulations) {}

  std::string name() const override { return name_; }

  std::vector<Action> choose(std::span<const AnyGame> states,
                             std::span<const uint64_t> seeds) override {
    const mcts::Budget budget = mcts::Budget::sims(simulations_);
    std::vector<std::unique_ptr<mcts::AnySearch<AnyGame>>> searches;
    for (size_t i = 0; i < states.size(); ++i) {
      mcts::SearchConfig config = config_.search_config();
      config.seed = seeds[i];
      searches.push_back(mcts::any_searches().make(policy_of(config_.search), config));
      searches.back()->set_root(states[i]);
    }
    // A leaf of each search that goes on makes up a batch.
    std::vector<mcts::EvalBatch<AnyGame>> leaves(states.size());
    std::vector<mcts::EvalItem<AnyGame>> items;
    for (;;) {
      items.clear();
      for (size_t i = 0; i < searches.size(); ++i) {
        leaves[i] = {};
        if (searches[i]->gather(leaves[i], 1, budget) > 0) {
          items.insert(items.end(), leaves[i].items.begin(), leaves[i].items.end());
        }
      }
      if (items.empty()) {
        break;
      }
      mcts::EvalBatch<AnyGame> batch{items};
      evaluator_.evaluate(batch);
      size_t answer = 0;
      for (size_t i = 0; i < searches.size(); ++i) {
        for (mcts::EvalItem<AnyGame>& leaf : leaves[i].items) {
          leaf.values = items[answer++].values;  // priors were written in place
        }
        if (!leaves[i].items.empty()) {
          searches[i]->scatter(leaves[i]);
        }
      }
    }
    std::vector<Action> out;
    for (const auto& search : searches) {
      const auto action = search->result().action;
      check(action.has_value(), "match: {} simulations reach no action", simulations_);
      out.push_back(*action);
    }
    return out;
  }

 private:
  std::string name_;
  AgentConfig config_;
  mcts::AnyEvaluator<AnyGame>& evaluator_;
  int64_t simulations_;
};

class UctContestant final : public Contestant {
 public:
  UctContestant(const BoardGame& game, int64_t simulations, int threads)
      : game_(game), simulations_(simulations), pool_(threads - 1) {}

  std::string name() const override { return fmt::format("uct:{}", simulations_); }

  std::vector<Action> choose(std::span<const AnyGame> states,
                             std::span<const uint64_t> seeds) override {
    std::vector<Action> out(states.size());
    pool_.parallel_for(static_cast<int64_t>(states.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        const auto search = game_.playable().search(
            {.seed = seeds[i], .memory_limit = int64_t{1} << 28}, mcts::RandomRollout{});
        search->set_root(states[i]);
        const auto action = search->run(mcts::Budget::sims(simulations_)).action;
        check(action.has_value(), "match: {} simulations reach no action", simulations_);
        out[i] = *action;
      }
    });
    return out;
  }

 private:
  const BoardGame& game_;
  int64_t simulations_;
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Contestant> network_contestant(std::string name, const AgentConfig& config,
                                               mcts::AnyEvaluator<AnyGame>& evaluator,
                                               int64_t simulations) {
  return std::make_unique<NetworkContestant>(std::move(name), config, evaluator, simulations);
}

std::unique_ptr<Contestant> uct_contestant(const BoardGame& game, int64_t simulations,
                                           int threads) {
  return std::make_unique<UctContestant>(game, simulations, threads);
}

}  // namespace mstrain::alphazero
