// Serving: the weights of a commit, for any number of threads, while training goes on elsewhere. Nothing is written; several processes
// may read one directory. Deltas exported by the trainer bring a reader up to date: a lookup sees all of a delta or nothing of it.
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

  CommitId commit() const;
  uint64_t step() const;  // of the commit, or of the newest delta
  uint32_t table(std::string_view name) const;
  uint32_t width(uint32_t table) const;

  // Weights of ids[i] to out + i * stride: zeros where there is no row, and found[i] says so if `found` is given. Thread-safe.
  void lookup(uint32_t table, std::span<const Id> ids, float* out, size_t stride,
              bool* found = nullptr) const;
  // Rows and tombstones of a delta that starts at or before step(); kept in memory. Error for one that leaves a gap, IoError for a damaged
  // file, with nothing changed. Thread-safe.
  ExportSummary apply_delta(const std::string& path);
  ReaderStats stats() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mstrain::embedding_cache
