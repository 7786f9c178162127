// Serving: the weights of a commit, for any number of threads, while training goes on elsewhere. Nothing is written; several processes
// may read one directory. Newer commits, and deltas exported by the trainer, bring a reader up to date: a lookup sees all of one or nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "embedding_cache/cache.h"

namespace mstrain::embedding_cache {

struct ReaderOptions {
  std::string directory;
  CommitId commit = 0;          // 0: the newest that is intact
  uint64_t host_rows = 100000;  // weights kept in memory, by table (least recently used ones leave)
  int read_threads = 8;
  bool direct_io = false;
  FileSystem* files = nullptr;  // null: real_files()
};

struct ReaderStats {
  uint64_t lookups = 0;     // ids asked for
  uint64_t hits = 0;        // found in memory
  uint64_t missing = 0;     // ids without a row
  uint64_t delta_rows = 0;  // rows and tombstones held from deltas
};

class Reader {
 public:
  static Reader open(const ReaderOptions& options);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  CommitId commit() const;  // that it has moved to last
  uint64_t step() const;    // of the commit, or of the newest delta
  uint32_t table(std::string_view name) const;
  uint32_t width(uint32_t table) const;

  // Weights of ids[i] to out + i * stride; where there is no row, what the table's option `untrained` says, and found[i] is false if `found`
  // is given. Thread-safe.
  void lookup(uint32_t table, std::span<const Id> ids, float* out, size_t stride,
              bool* found = nullptr) const;
  // Rows and tombstones of a delta that starts at or before step(), and ends no earlier; kept in memory. An export of everything takes the place
  // of all that there is. Error for one that leaves a gap, or is of a run that has gone back to before what is here; IoError for a damaged file;
  // with nothing changed. Thread-safe.
  ExportSummary apply_delta(const std::string& path);
  // Moves to commit `commit` of the directory, or with 0 to the newest that is intact, where that is of a later step than step(); true if it
  // moved. Rows in memory are read anew before lookups see the commit; deltas taken so far are dropped. IoError where a commit asked for by id
  // is missing or damaged, with nothing changed. Thread-safe.
  bool move_to(CommitId commit = 0);
  ReaderStats stats() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mstrain::embedding_cache
