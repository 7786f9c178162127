// The tier below memory: a map from (table, id) to records. Two are provided: memory_store.cc and rocksdb_store.cc.
// What a store holds while it is open is disposable; only what checkpoint() wrote survives.
// Errors are IoError with the store's name, the operation, how many rows, and the errno where there is one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "embedding_cache/options.h"

namespace mstrain {
class ThreadPool;
}

namespace mstrain::embedding_cache {

// A row to be written, or deleted where `record` is null.
struct RowWrite {
  uint32_t table;
  Id id;
  const std::byte* record;
};

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
};

// Records that a scan shows may lie at any address: copy the floats before using them as such.
using RowVisitor = std::function<void(Id id, const std::byte* record)>;

// Thread-safe, with at most one write, checkpoint or scan at a time.
class RowStore {
 public:
  virtual ~RowStore() = default;
  virtual const char* name() const = 0;

  // Copies the record of each of `ids` (ascending, of one table) to into[i], and sets found[i]. Where there is none, into[i] is as it was.
  virtual void multi_get(uint32_t table, std::span<const Id> ids, std::byte* const* into,
                         bool* found) = 0;
  // `rows` ascend by (table, id) and are distinct. When this returns, multi_get finds them.
  virtual void write(std::span<const RowWrite> rows) = 0;
  virtual void scan(uint32_t table, const RowVisitor& visit) = 0;  // ascending ids
  // Writes everything into the new directory `folder`; its files are durable on return, its name is not.
  virtual std::vector<StoreFile> checkpoint(const std::string& folder) = 0;
  virtual StoreStats stats() const = 0;
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
