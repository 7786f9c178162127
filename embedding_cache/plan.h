// What a cache of given options would need and do, before anything is allocated: bytes by tier, hit rate, reads and writes per batch.
// The workload is a Zipf distribution, or what a replay of real batches found (replay.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "embedding_cache/options.h"
#include "embedding_cache/replay.h"

namespace mstrain::embedding_cache {

struct Workload {
  uint64_t rows = 1'000'000;  // distinct ids of the table
  bool are_all = true;        // false: more of them may come
  double alpha = 1.05;        // of Zipf's law: the k-th id is drawn with weight k^-alpha
  uint64_t draws_per_batch = 100'000;
  std::optional<ReplayResult> replayed = {};  // tells what the law and the draws would
  double compute_seconds = 0;                 // of one batch, 0: unknown
  double reads_per_second =
      60'000;  // cold rows; measure with ec_tool or take the default of a cloud disk
  double writes_per_second = 160'000;  // rows written back
};

struct TablePlan {
  std::string name;
  uint64_t rows = 0;
  uint64_t record_bytes = 0;
  uint64_t host_rows = 0;
  uint64_t host_bytes = 0;           // records of the host tier
  uint64_t host_overhead_bytes = 0;  // index and bookkeeping
  uint64_t store_bytes = 0;          // all rows on disk, once; 0 where the store is memory
  uint64_t store_memory_bytes =
      0;  // what the store keeps in memory for them: RocksDB's index and filters, or all rows
  uint64_t commit_bytes = 0;  // what a commit writes if every row of the host tier has changed
  double lookups_per_batch = 0;
  double distinct_per_batch = 0;
  double hits_per_lookup = 0;  // ideal cache of the hottest rows
  double hits_per_id = 0;
  double misses_per_batch = 0;
  double new_per_batch = 0;  // of these: rows that begin, and are not read; in a replay alone
  double read_bytes_per_batch = 0;
  double write_bytes_per_batch = 0;  // in the steady state every miss drives out a changed row
  double read_seconds = 0;
  double write_seconds = 0;  // processor time of writing back
};

struct Plan {
  std::vector<TablePlan> tables;
  uint64_t buffer_bytes = 0;  // rows on their way out and RocksDB's newest writes, at most
  uint64_t memory_bytes = 0;  // all of it
  double compute_seconds = 0;
  double read_seconds = 0;  // of all tables
  double step_seconds = 0;  // where prefetch overlaps compute; 0: compute is unknown
  double step_seconds_without_prefetch = 0;
};

// One workload per table, in order. Throws Error where the numbers differ.
Plan plan(const Options& options, const std::vector<Workload>& workloads);
std::string print_plan(const Plan& plan);

// Share of draws that fall on the `hottest` of `rows` ids, and how many distinct ids `draws` draws hold on average.
double zipf_share(uint64_t rows, double alpha, uint64_t hottest);
double zipf_distinct(uint64_t rows, double alpha, uint64_t draws);

}  // namespace mstrain::embedding_cache
