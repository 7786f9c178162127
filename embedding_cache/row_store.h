// The last tier: a map from (table, id) to records. Two are provided: memory_store.cc and rocksdb_store.cc.
// What a store holds while it is open is disposable; only what checkpoint() wrote survives.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "embedding_cache/tier.h"

namespace mstrain {
class ThreadPool;
}

namespace mstrain::embedding_cache {

// A file of a checkpoint with its size and digest, "crc32c:" and eight hexadecimal digits.
struct StoreFile {
  std::string name;
  uint64_t size = 0;
  std::string digest;
};

struct StoreStats {
  uint64_t rows_read = 0;  // asked for
  uint64_t rows_found = 0;
  uint64_t rows_written = 0;
  uint64_t bytes_written = 0;  // of records handed over
  uint64_t memory_bytes =
      0;  // what the store keeps in memory: RocksDB's index, filters and newest writes
};

// RocksDB's buffer of writes that are not in a file yet; two may exist.
inline constexpr uint64_t kWriteBufferBytes = 64 << 20;

// Records that a scan shows may lie at any address: copy the floats before using them as such.
using RowVisitor = std::function<void(Id id, const std::byte* record)>;

// Thread-safe, with at most one write or checkpoint at a time. Scans run beside them, and see each row as it was at some time meanwhile.
class RowStore : public Tier {
 public:
  // Rows by ascending ids; with `after_step` those alone that were learned later than it, without reading what holds no such rows. This
  // relies on write() never putting a row back to an earlier step.
  virtual void scan(uint32_t table, uint64_t after_step, const RowVisitor& visit) = 0;
  void scan(uint32_t table, const RowVisitor& visit) { scan(table, 0, visit); }
  // Writes everything into the new directory `folder`; its files are durable on return, its name is not.
  virtual std::vector<StoreFile> checkpoint(const std::string& folder) = 0;
  virtual StoreStats stats() const = 0;

  // Grows while reads, writes, scans and checkpoints get on: who waits for one of them gives up when it no longer does.
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 protected:
  void get_on() { progress_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> progress_ = 0;
};

struct StoreContext {
  std::vector<uint32_t> record_bytes;  // by table
  StoreOptions options;
  FileSystem* files = nullptr;
  ThreadPool* workers = nullptr;  // outlives the store
};

// Holds every record in memory. `from` is a checkpoint folder to start from, or empty.
std::unique_ptr<RowStore> open_memory_store(const StoreContext& context, const std::string& from);

// False where the library was built without RocksDB; opening one is then an error that says so.
bool has_rocksdb();
// `live` is deleted and made anew, from the checkpoint `from` by hard links or empty.
std::unique_ptr<RowStore> open_rocksdb_store(const StoreContext& context, const std::string& live,
                                             const std::string& from);
// Reads the checkpoint in place; write and checkpoint are errors. Any number may be open.
std::unique_ptr<RowStore> open_rocksdb_read_only(const StoreContext& context,
                                                 const std::string& from);

// CRC-32C of a file that already exists, in the form of StoreFile.
StoreFile summarise_store_file(FileSystem& files, const std::string& folder,
                               const std::string& name);

}  // namespace mstrain::embedding_cache
