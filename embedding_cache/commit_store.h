// A commit opened for reading, without the lock of its directory: any number of processes may, while another one trains.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/thread_pool.h"
#include "embedding_cache/commit.h"
#include "embedding_cache/past.h"
#include "embedding_cache/row.h"
#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {

struct CommitStore {
  CommitInfo info;
  Options options;  // of the run that wrote it
  std::vector<RowLayout> layouts;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<RowStore> store;  // after the pool that it uses
  std::vector<Past> pasts;          // of each table

  // RowStore::scan of rows that have gone through all steps of the commit.
  void scan(uint32_t table, uint64_t after_step, const RowVisitor& visit) const;

  uint32_t table(std::string_view name) const;  // Error with the nearest name
};

// `id` 0: the newest whose files all have their digests; damaged ones are passed over with a warning. Asked for by id, one that is
// missing or damaged is an IoError.
CommitStore open_commit(FileSystem& files, const std::string& directory, CommitId id,
                        int read_threads = 1, bool direct_io = false);

}  // namespace mstrain::embedding_cache
