// The store for tests, small tables and machines without RocksDB: records in memory, checkpoints as one file per table.
//
// rows-<table>.bin, little-endian: "MSECROW1", record bytes (u32), table (u32), rows (u64), then per row the id (u64) and the record.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "core/io/digest.h"
#include "embedding_cache/bytes.h"
#include "embedding_cache/id_map.h"
#include "embedding_cache/row.h"
#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {
namespace {

constexpr std::string_view kRowsMagic = "MSECROW1";
constexpr size_t kHeader = 24;
constexpr size_t kChunkRows = 4096;  // rows per allocation, and per append to a file

class MemoryTable {
 public:
  explicit MemoryTable(uint32_t record_bytes) : record_bytes_(record_bytes) {}

  const std::byte* find(Id id) const {
    const uint64_t at = index_.find(id);
    return at == IdMap::kNone ? nullptr : record(at);
  }
  void put(Id id, const std::byte* bytes) {
    uint64_t& at = index_.at(id, kNew);
    if (at == kNew) {
      at = take();
    }
    std::memcpy(record(at), bytes, record_bytes_);
  }
  void erase(Id id) {
    const uint64_t at = index_.find(id);
    if (at != IdMap::kNone) {
      free_.push_back(at);
      index_.erase(id);
    }
  }
  size_t size() const { return index_.size(); }
  std::vector<Id> sorted_ids() const {
    std::vector<Id> ids;
    ids.reserve(index_.size());
    index_.each([&](Id id, uint64_t) { ids.push_back(id); });
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  uint32_t record_bytes() const { return record_bytes_; }
  uint64_t memory_bytes() const {
    return chunks_.size() * kChunkRows * record_bytes_ + index_.bytes() + free_.capacity() * 8;
  }

 private:
  static constexpr uint64_t kNew = IdMap::kNone - 1;
  std::byte* record(uint64_t at) const {
    return chunks_[at / kChunkRows].get() + at % kChunkRows * record_bytes_;
  }
  uint64_t take() {
    if (!free_.empty()) {
      const uint64_t at = free_.back();
      free_.pop_back();
      return at;
    }
    if (used_ % kChunkRows == 0) {
      chunks_.push_back(std::make_unique<std::byte[]>(kChunkRows * record_bytes_));
    }
    return used_++;
  }

  uint32_t record_bytes_;
  IdMap index_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<uint64_t> free_;
  uint64_t used_ = 0;
};

std::string file_of(size_t table) { return fmt::format("rows-{}.bin", table); }

class MemoryStore final : public RowStore {
 public:
  MemoryStore(const StoreContext& context, const std::string& from) : files_(*context.files) {
    for (const uint32_t bytes : context.record_bytes) {
      tables_.emplace_back(bytes);
    }
    if (!from.empty()) {
      for (size_t t = 0; t < tables_.size(); ++t) {
        load(static_cast<uint32_t>(t), join_path(from, file_of(t)));
      }
    }
  }

  const char* name() const override { return "memory"; }

  void read(uint32_t table, std::span<const Id> ids, std::byte* const* into, bool* found) override {
    const std::shared_lock lock(mutex_);
    const MemoryTable& rows = tables_[table];
    uint64_t hits = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::byte* record = rows.find(ids[i]);
      found[i] = record != nullptr;
      if (found[i]) {
        std::memcpy(into[i], record, rows.record_bytes());
        ++hits;
      }
    }
    get_on();
    const std::lock_guard stats_lock(stats_mutex_);
    stats_.rows_read += ids.size();
    stats_.rows_found += hits;
  }

  void write(std::span<const RowWrite> rows) override {
    const std::lock_guard lock(mutex_);
    const std::lock_guard stats_lock(stats_mutex_);
    for (const RowWrite& row : rows) {
      MemoryTable& table = tables_[row.table];
      if (row.record == nullptr) {
        table.erase(row.id);
      } else {
        table.put(row.id, row.record);
        stats_.bytes_written += table.record_bytes();
      }
    }
    stats_.rows_written += rows.size();
    get_on();
  }

  using RowStore::scan;
  void scan(uint32_t table, uint64_t after_step, const RowVisitor& visit) override {
    const std::shared_lock lock(mutex_);
    for (const Id id : tables_[table].sorted_ids()) {
      const std::byte* record = tables_[table].find(id);
      get_on();
      if (after_step == 0 || load_header(record).step > after_step) {
        visit(id, record);
      }
    }
  }

  std::vector<StoreFile> checkpoint(const std::string& folder) override {
    const std::shared_lock lock(mutex_);
    files_.create_directories(folder);
    std::vector<StoreFile> out;
    for (size_t t = 0; t < tables_.size(); ++t) {
      const MemoryTable& table = tables_[t];
      const std::string name = file_of(t);
      const auto file = files_.open(join_path(folder, name), WriteMode::kTruncate);
      std::string chunk(kRowsMagic);
      put(chunk, table.record_bytes());
      put(chunk, static_cast<uint32_t>(t));
      put(chunk, static_cast<uint64_t>(table.size()));
      StoreFile summary{.name = name};
      uint32_t crc = 0;
      const auto flush = [&] {
        file->append(chunk);
        crc = crc32c(as_bytes(chunk), crc);
        summary.size += chunk.size();
        chunk.clear();
        get_on();
      };
      for (const Id id : table.sorted_ids()) {
        put(chunk, id);
        chunk.append(reinterpret_cast<const char*>(table.find(id)), table.record_bytes());
        if (chunk.size() >= (4U << 20)) {
          flush();
        }
      }
      flush();
      file->sync();
      file->close();
      summary.digest = fmt::format("crc32c:{:08x}", crc);
      out.push_back(std::move(summary));
    }
    files_.sync_directory(folder);
    return out;
  }

  StoreStats stats() const override {
    const std::shared_lock lock(mutex_);
    const std::lock_guard stats_lock(stats_mutex_);
    StoreStats out = stats_;
    for (const MemoryTable& table : tables_) {
      out.memory_bytes += table.memory_bytes();
    }
    return out;
  }

 private:
  void load(uint32_t table, const std::string& path) {
    const auto file = files_.map(path);
    ByteReader in(file->bytes(), path);
    in.require(in.left() >= kHeader && in.take_text(kRowsMagic.size()) == kRowsMagic,
               "not a file of rows");
    const auto record_bytes = in.take<uint32_t>();
    in.require(record_bytes == tables_[table].record_bytes(), "rows of another width");
    in.require(in.take<uint32_t>() == table, "rows of another table");
    const auto count = in.take<uint64_t>();
    const size_t stride = 8 + size_t{record_bytes};
    in.require(in.left() % stride == 0 && in.left() / stride == count,
               "its size does not fit its number of rows");
    for (uint64_t i = 0; i < count; ++i) {
      const auto id = in.take<Id>();
      tables_[table].put(id, in.take_bytes(record_bytes).data());
    }
    in.require(tables_[table].size() == count, "an id occurs twice");
  }

  FileSystem& files_;
  mutable std::shared_mutex mutex_;
  std::vector<MemoryTable> tables_;
  mutable std::mutex stats_mutex_;
  StoreStats stats_;
};

}  // namespace

std::unique_ptr<RowStore> open_memory_store(const StoreContext& context, const std::string& from) {
  return std::make_unique<MemoryStore>(context, from);
}

StoreFile summarise_store_file(FileSystem& files, const std::string& folder,
                               const std::string& name) {
  const auto file = files.map(join_path(folder, name));
  const std::span<const std::byte> bytes = file->bytes();
  return {
      .name = name, .size = bytes.size(), .digest = fmt::format("crc32c:{:08x}", crc32c(bytes))};
}

}  // namespace mstrain::embedding_cache
