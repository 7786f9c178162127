// What a cache has done since it was opened, by table and in all. A hit is counted twice: by position of a batch, and by distinct id.
// Ids that admission turned away have no row: they are neither hits nor misses, and counted by themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {

struct TableStats {
  std::string name;
  uint64_t rows = 0;       // with at least one update, in all tiers
  uint64_t host_rows = 0;  // in host memory now
  uint64_t host_capacity = 0;
  uint64_t pinned_rows = 0;
  uint64_t record_bytes = 0;
  uint64_t overhead_bytes = 0;  // of host memory beyond the records
  uint64_t batches = 0;
  uint64_t positions = 0;
  uint64_t position_hits = 0;
  uint64_t ids = 0;  // distinct per batch
  uint64_t id_hits = 0;
  uint64_t write_back_hits = 0;  // misses that were found among rows on their way out
  uint64_t refused = 0;          // ids that admission turned away
  uint64_t evicted_clean = 0;
  uint64_t evicted_dirty = 0;
  uint64_t updates = 0;  // of rows
  uint64_t tombstones = 0;
  uint64_t filter_ids = 0;  // that the admission filter remembers
};

struct Stats {
  std::vector<TableStats> tables;
  std::string store_name;
  StoreStats store;
  uint64_t open_tickets = 0;
  uint64_t write_back_bytes = 0;  // on their way out now
  double prefetch_seconds = 0;    // spent inside prefetch
  double wait_seconds = 0;        // inside wait
  double gather_seconds = 0;
  double update_seconds = 0;
  double commit_seconds = 0;
};

std::string print_stats(const Stats& stats);       // a table for people
std::string print_stats_json(const Stats& stats);  // one object

}  // namespace mstrain::embedding_cache
