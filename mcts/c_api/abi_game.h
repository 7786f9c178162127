// A game given as a table of C functions, as a state of AnyGame.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "mcts/any_game.h"
#include "mcts/c_api/mstrain_mcts.h"

namespace mstrain::mcts {

// What a callback did wrong; the C functions turn these into codes.
class GameError : public Error {
 public:
  using Error::Error;
};
class EvaluatorError : public Error {
 public:
  using Error::Error;
};

// Outlives its states.
struct AbiGame {
  explicit AbiGame(const mst_mcts_game& from);
  mst_mcts_game table;
  AnyGame::Facts facts;
};

class AbiState final : public AnyGame::State {
 public:
  AbiState(const AbiGame& game, const void* state);

  const AnyGame::Facts& facts() const override { return game_->facts; }
  std::unique_ptr<State> clone() const override { return std::make_unique<AbiState>(*this); }
  bool assign(const State& other) override;
  int player() const override;
  void legal(ActionBuffer& out) const override;
  void apply(Action action) override;
  Returns<AnyGame::kPlayers> returns() const override;
  Returns<AnyGame::kPlayers> rollout(Random& rng) const override;
  void chance(ChanceBuffer& out) const override;
  Returns<AnyGame::kPlayers> rewards() const override;
  void undo(Action action) override;
  Action sample_action(Random& rng) const override;
  uint64_t hash() const override;
  void determinize(int player, Random& rng) override;
  uint64_t information_key(int player) const override;

  // The network input as the player to move sees it.
  void observe(float* out) const;
  const mst_mcts_game& table() const { return game_->table; }
  const void* data() const { return bytes_.data(); }

 private:
  void room(const char* what, uint32_t count) const;
  Action known(const char* what, uint32_t action) const;

  const AbiGame* game_;
  std::vector<std::byte> bytes_;
};

inline const AbiState& abi_state(const AnyGame& game) {
  return static_cast<const AbiState&>(game.state());
}

}  // namespace mstrain::mcts
