#include "mcts/any_search.h"

namespace mstrain::mcts {

const SearchRegistry<AnyGame>& any_searches() {
  static const SearchRegistry<AnyGame> kSearches;
  return kSearches;
}

}  // namespace mstrain::mcts
