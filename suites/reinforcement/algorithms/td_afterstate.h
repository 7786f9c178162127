// Temporal differences of afterstates (Szubert, Jaskowski 2014): what a board is worth behind the player's own move and in front
// of chance's. The next move is the one whose reward and afterstate are worth most; what that comes to is what the afterstate
// before is told. For games of one player whose rules are known and whose board is all that there is (mcts/game.h: cells()).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mcts/any_evaluator.h"
#include "mcts/play/playable.h"
#include "mcts/search/config.h"
#include "suites/reinforcement/algorithms/algorithm_config.h"
#include "suites/reinforcement/algorithms/ntuple_network.h"

namespace mstrain::reinforcement {

class TdAfterstate final : public AlgorithmConfig {
 public:
  // Of a board of 4 x 4: what Yeh et al. 2016 and Jaskowski 2018 take.
  std::vector<NTupleNetwork::Tuple> tuples{
      {0, 1, 2, 3, 4, 5}, {4, 5, 6, 7, 8, 9}, {0, 1, 2, 4, 5, 6}, {4, 5, 6, 8, 9, 10}};
  double step_size = 1;
  int64_t train_every = 64;
  int64_t simulations = 0;

  TdAfterstate() { discount = 1; }
  void fields(ConfigFields& v) override;
  // Of a search of the rules, PUCT, whose leaves and priors are AfterstateValues', from a position that is worth `value`.
  mcts::SearchConfig search_config(uint64_t seed, float value) const;
};

// A game, and what tables think of its positions. Methods are thread-safe but for bind().
class AfterstateValues {
 public:
  // Throws ConfigError that begins with the key, for a game it is not for, tuples that are none of its board, and a search of one
  // simulation.
  AfterstateValues(const TdAfterstate& config, const std::string& game);

  const mcts::play::Playable& game() const { return *game_; }
  size_t cells() const { return cells_; }
  const NTupleNetwork& network() const { return network_; }
  // The tables that values are of: of network().specs(), which must outlive their use.
  void bind(const Params& tables) { tables_ = memory_of(tables); }

  // The position that player 0 sees so, which is to move or over.
  mcts::AnyGame seen(std::span<const float> observation) const;

  struct Choice {
    int64_t action = -1;  // none: the game is over
    float total = 0;      // its reward and the discounted value of the afterstate
  };
  // Of the player to move. `after`: where not empty, the cells of its afterstate.
  Choice best(const mcts::AnyGame& state, std::span<uint8_t> after = {}) const;
  // Of an afterstate, by its entries in the tables.
  float value(std::span<const uint32_t> entries) const { return network_.value(tables_, entries); }

  // As an evaluator of mcts/: leaves are worth their best choice, and choices are the likelier the less worse they are.
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = true;
  void evaluate(mcts::EvalBatch<mcts::AnyGame>& batch) const;

 private:
  struct Look;
  // At each legal action; of this thread, until it looks again.
  const Look& look(const mcts::AnyGame& state) const;

  std::unique_ptr<mcts::play::Playable> game_;
  size_t cells_;
  NTupleNetwork network_;
  float discount_;
  std::vector<float*> tables_;
};

}  // namespace mstrain::reinforcement
