// Which ids get a row. A decision depends on the batches seen so far and on nothing else, so every depth of prefetch and every cache
// size decides alike. Counted once per batch that holds the id. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "embedding_cache/id_map.h"
#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

class AdmissionFilter {
 public:
  AdmissionFilter(const AdmissionOptions& options, uint64_t table_seed);

  // Whether the id has a row once the batch of `step` is counted; decided for all ids of a batch before any is counted.
  bool would_admit(Id id, uint64_t step) const;
  void count(Id id, uint64_t step);
  bool is_admitted(Id id) const;
  void add(Id id);     // has a row, whatever was counted: imported
  void forget(Id id);  // its row is gone; it starts anew (with a Bloom filter it keeps its count)

  // State for a commit and back; load throws IoError that starts with `name` for anything that save did not write.
  std::string save() const;
  void load(std::string_view bytes, const std::string& name);

 private:
  void cells(Id id, uint64_t* out) const;

  static constexpr int kHashes = 4;
  AdmissionOptions options_;
  uint64_t seed_;
  IdMap counts_;                   // count: batches so far; probability: 1 for the admitted
  std::vector<uint8_t> counters_;  // bloom
  IdMap imported_;                 // bloom: ids added without a count
};

}  // namespace mstrain::embedding_cache
