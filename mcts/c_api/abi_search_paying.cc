#include "mcts/c_api/abi_search.h"

template std::unique_ptr<mstrain::mcts::AbiSearch>
mstrain::mcts::make_abi_search<mstrain::mcts::AbiPaying>(const mst_mcts_game&, const std::string&,
                                                         const SearchConfig&);
