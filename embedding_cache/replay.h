// Hit rates of an id log: what a host tier of some size would have found in memory. The tier's own code decides who leaves, so that the
// answer is what training will see; beside it stands the optimum (Belady 1966), which knows the whole log.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

struct ReplayResult {
  std::string policy;
  uint64_t host_rows = 0;
  uint64_t batches = 0;
  uint64_t lookups = 0;
  uint64_t lookup_hits = 0;
  uint64_t ids = 0;  // distinct per batch
  uint64_t id_hits = 0;
  uint64_t new_ids = 0;  // of those that were not found: no batch before asked for them
  uint64_t evictions = 0;
  double hits_per_lookup() const {
    return lookups == 0 ? 0 : double(lookup_hits) / double(lookups);
  }
  double hits_per_id() const { return ids == 0 ? 0 : double(id_hits) / double(ids); }
};

struct ReplayOptions {
  uint64_t host_rows = 0;
  uint64_t batch = 16000;     // ids of a batch
  uint32_t look_ahead = 8;    // batches known in advance, the one in hand not counted
  uint64_t skip_batches = 0;  // not counted: the cache is still cold
};

// Throws Error where a batch does not fit.
ReplayResult replay(std::span<const Id> log, Policy policy, const ReplayOptions& options);
// The same of batches of any lengths, some maybe empty; options.batch plays no part.
ReplayResult replay(const std::vector<std::span<const Id>>& batches, Policy policy,
                    const ReplayOptions& options);
// The fewest rows that must be brought in after the skipped batches, whoever decides who leaves and whatever he knows: the row leaves whose
// next use lies farthest ahead in the log. No policy has more hits per id. Hits per lookup are those of the same choice, and no bound: a
// row counts there as often as its batch asks for it.
ReplayResult replay_optimum(std::span<const Id> log, const ReplayOptions& options);

// Ids as 8 bytes each, little-endian; or text, one id a line.
std::vector<Id> read_id_log(FileSystem& files, const std::string& path);

struct ReplayCost {
  uint64_t record_bytes = 0;
  double reads_per_second = 60'000;
  double compute_seconds = 0;  // of a batch
};
std::string print_replay(const std::vector<ReplayResult>& results, const ReplayCost& cost);
// One self-contained page with the table and a chart of hit rates by size.
std::string replay_page(const std::vector<ReplayResult>& results, const ReplayCost& cost,
                        const std::string& title);

}  // namespace mstrain::embedding_cache
