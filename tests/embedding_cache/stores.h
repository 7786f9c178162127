// The stores that this build has.
#pragma once

#include <vector>

#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {

inline std::vector<StoreKind> stores() {
  return has_rocksdb() ? std::vector{StoreKind::kMemory, StoreKind::kRocksdb}
                       : std::vector{StoreKind::kMemory};
}

}  // namespace mstrain::embedding_cache
