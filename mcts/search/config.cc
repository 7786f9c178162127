#include "mcts/search/config.h"

#include "core/base/config_check.h"

namespace mstrain::mcts {

void check_search(const SearchConfig& config) { check_config(config, "search"); }

}  // namespace mstrain::mcts
