#include "mcts/c_api/abi_search.h"

namespace mstrain::mcts {

std::unique_ptr<AbiSearch> make_abi_search_many(const mst_mcts_game& game,
                                                const std::string& policy,
                                                const SearchConfig& config) {
  return make_abi_search<AbiState<8, false>>(game, policy, config);
}

}  // namespace mstrain::mcts
