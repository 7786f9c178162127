// One small table, and steps on it.
#pragma once

#include <string>
#include <vector>

#include "embedding_cache/cache.h"

namespace mstrain::embedding_cache {

// Each id learns from a gradient of ones.
inline void learn(Cache& cache, uint32_t table, std::span<const Id> ids, uint64_t step) {
  Ticket ticket = cache.prefetch(table, ids, step);
  cache.wait(ticket);
  cache.update(ticket, std::vector<float>(ids.size() * cache.layout(table).width(), 1.0F));
  cache.release(std::move(ticket));
}

inline Options one_table(const std::string& directory, StoreKind store = StoreKind::kMemory) {
  Options options;
  options.directory = directory;
  options.store.kind = store;
  options.tables = {{.name = "t", .host_rows = 64, .segments = {{.width = 2}}}};
  return options;
}

}  // namespace mstrain::embedding_cache
