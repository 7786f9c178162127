#include "mcts/c_api/abi_search.h"

namespace mstrain::mcts {

std::unique_ptr<AbiSearch> make_abi_search_one(const mst_mcts_game& game, const std::string& policy,
                                               const SearchConfig& config) {
  if (game.rewards != nullptr) {
    return make_abi_search<AbiState<1, true>>(game, policy, config);
  }
  return make_abi_search<AbiState<1, false>>(game, policy, config);
}

}  // namespace mstrain::mcts
