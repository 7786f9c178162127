#include "mcts/c_api/abi_search.h"

namespace mstrain::mcts {

std::unique_ptr<AbiSearch> make_abi_search_two(const mst_mcts_game& game, const std::string& policy,
                                               const SearchConfig& config) {
  return make_abi_search<AbiState<2, false>>(game, policy, config);
}

}  // namespace mstrain::mcts
