// Which ids get a row. A decision depends on the batches seen so far and on nothing else, so every depth of prefetch and every cache
// size decides alike. Counted once per batch that holds the id. An id that has a row is remembered until that is forgotten; what is counted
// of the others reaches back one to two windows of steps. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "embedding_cache/options.h"
#include "embedding_cache/shared_map.h"

namespace mstrain::embedding_cache {

class AdmissionFilter {
 public:
  // `window`: steps, 0 for ever.
  AdmissionFilter(const AdmissionOptions& options, uint64_t table_seed, uint64_t window);

  // Whether the id has a row once the batch of `step` is counted; decided for all ids of a batch before any is counted.
  bool would_admit(Id id, uint64_t step) const;
  void count(Id id, uint64_t step);
  void turn(uint64_t step);  // a batch of that step is counted, of whatever ids
  bool is_admitted(Id id) const;
  void add(Id id);     // has a row, whatever was counted: imported
  void forget(Id id);  // its row is gone; it starts anew (with a Bloom filter it keeps its count)
  uint64_t size() const { return admitted_.size() + young_.size() + old_.size(); }  // ids held

  // Everything, for a commit.
  struct View {
    AdmissionKind kind;
    uint64_t since;  // step at which the window that is counted began
    SharedIdMap::View admitted, young, old;
    SharedCounters::View young_counters, old_counters;
    std::string save() const;
  };
  View freeze();                                      // stays as it is until thaw()
  void thaw();                                        // when the view is gone
  std::string save() const { return view().save(); }  // not while frozen
  // Throws IoError that starts with `name` for anything that save did not write.
  void load(std::string_view bytes, const std::string& name);

 private:
  View view() const;
  uint64_t turns(uint64_t step) const;  // windows that have ended since the last count
  uint64_t counted(Id id, uint64_t step) const;
  void cells(Id id, uint64_t* out) const;
  uint64_t counter(uint64_t cell, uint64_t turns) const;
  void count_cells(Id id);

  static constexpr int kHashes = 4;
  AdmissionOptions options_;
  uint64_t seed_;
  uint64_t window_;
  uint64_t generation_ = 0;  // the window that is being counted
  SharedIdMap admitted_;
  SharedIdMap young_, old_;                       // count: of this window and the one before
  SharedCounters young_counters_, old_counters_;  // bloom, likewise
};

}  // namespace mstrain::embedding_cache
