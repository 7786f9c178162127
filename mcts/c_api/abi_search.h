// The search behind a handle.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mcts/any_search.h"
#include "mcts/c_api/abi_game.h"

namespace mstrain::mcts {

class AbiSearch {
 public:
  // Throws Error for a policy that is not there, or that this game cannot have.
  AbiSearch(const mst_mcts_game& table, const std::string& policy, const SearchConfig& config);

  const mst_mcts_game& table() const { return game_->table; }
  void set_root(const void* state);
  bool has_root() const { return has_root_; }
  void advance(uint32_t action) { search_->advance(action); }
  // A null function: random rollouts.
  void run(const Budget& budget, mst_mcts_evaluate evaluate, void* context, bool with_priors);
  // Writes states and observations of the leaves, where asked, and returns their number.
  uint32_t gather(const Budget& budget, uint32_t max_leaves, const void** states,
                  float* observations);
  uint32_t gathered() const { return static_cast<uint32_t>(batch_.items.size()); }
  void scatter(const float* values, const float* priors);
  SearchResult<Action, AnyGame::kPlayers> result() const { return search_->result(); }

 private:
  std::unique_ptr<const AbiGame> game_;  // states point there
  std::unique_ptr<AnySearch<AnyGame>> search_;
  float discount_;
  EvalBatch<AnyGame> batch_;
  bool has_root_ = false;
};

}  // namespace mstrain::mcts
