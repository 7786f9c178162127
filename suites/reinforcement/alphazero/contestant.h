// Who takes part in matches: a network that searches, or a search by random games.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/base/thread_pool.h"
#include "suites/reinforcement/alphazero/agent.h"

namespace mstrain::alphazero {

class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual std::string name() const = 0;
  // An action for each state, none of which is terminal: a function of the state and its seed.
  virtual std::vector<Action> choose(std::span<const AnyGame> states,
                                     std::span<const uint64_t> seeds) = 0;
};

// PUCT or Gumbel over a network's evaluations; all states at once, so that they share batches. All must outlive it.
std::unique_ptr<Contestant> network_contestant(std::string name, const AgentConfig& config,
                                               mcts::AnyEvaluator<AnyGame>& evaluator,
                                               int64_t simulations);
// UCT with a random game for each simulation, on so many threads.
std::unique_ptr<Contestant> uct_contestant(const BoardGame& game, int64_t simulations, int threads);

}  // namespace mstrain::alphazero
