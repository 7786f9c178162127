// The store on disk: RocksDB, which only rocksdb_*.{h,cc} include. Keys are the table (2 bytes) and the id (8 bytes), big-endian.
//
// The live database runs without a write-ahead log, because a commit is a checkpoint: what was written since the last one must not
// survive a crash. Large sorted writes go straight into sorted files that are ingested (no memtable, no rewrite); small ones through the
// memtable. The CRC-32C of each sorted file is computed as it is written; a checkpoint links the files and reports those digests.
#include "core/base/error.h"
#include "embedding_cache/row.h"
#include "embedding_cache/row_store.h"

#ifdef MSTRAIN_HAS_ROCKSDB

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <limits>
#include <mutex>

#include "core/base/thread_pool.h"
#include "core/io/digest.h"
#include "embedding_cache/rocksdb_facts.h"
#include "embedding_cache/rocksdb_files.h"

#ifdef __SANITIZE_THREAD__
// The installed RocksDB is not built with the sanitizer, which sees its copies and comparisons but not the atomics that order them.
extern "C" const char* __tsan_default_suppressions() { return "race:librocksdb.so\n"; }
#endif

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kKeyBytes = 10;
constexpr uint64_t kIngestBytes = 1 << 20;  // writes of so much become a sorted file
constexpr uint64_t kStretch = 1024;         // rows that count as getting on
constexpr uint64_t kFileBytes = 256 << 20;  // of one sorted file at most

void encode_key(uint32_t table, Id id, char* out) {
  out[0] = static_cast<char>(table >> 8);
  out[1] = static_cast<char>(table);
  for (int i = 0; i < 8; ++i) {
    out[2 + i] = static_cast<char>(id >> (56 - 8 * i));
  }
}

Id decode_id(const rocksdb::Slice& key) {
  Id id = 0;
  for (int i = 0; i < 8; ++i) {
    id = id << 8 | static_cast<uint8_t>(key[2 + static_cast<size_t>(i)]);
  }
  return id;
}

// RocksDB would write a LOG beside its files, into commits too.
class SilentLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

rocksdb::Options database_options(const StoreOptions& options, bool read_only) {
  rocksdb::Options out;
  out.create_if_missing = !read_only;
  out.compression = rocksdb::kNoCompression;
  out.compaction_style = rocksdb::kCompactionStyleUniversal;
  out.compaction_options_universal.max_size_amplification_percent = 400;
  out.level0_file_num_compaction_trigger = 8;
  out.level0_slowdown_writes_trigger =
      512;  // filters keep reads cheap meanwhile; a stalled write stops training
  out.level0_stop_writes_trigger = 2048;
  out.write_buffer_size = kWriteBufferBytes;
  out.max_background_jobs = 2;
  out.max_open_files = -1;
  out.use_direct_reads = options.direct_io;
  out.use_direct_io_for_flush_and_compaction = options.direct_io;
  state_facts(out);
  out.writable_file_max_buffer_size = 4 << 20;
  out.info_log = std::make_shared<SilentLog>();
  out.stats_dump_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = size_t{options.block_kib} << 10;
  table.no_block_cache = true;  // the host tier is the cache
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  if (options.bloom_bits > 0) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(options.bloom_bits, false));
  }
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return out;
}

class RocksdbStore final : public RowStore {
 public:
  RocksdbStore(const StoreContext& context, std::string path, bool read_only)
      : context_(context),
        path_(std::move(path)),
        options_(database_options(context.options, read_only)) {
    if (context.files != &real_files()) {
      env_ = env_of(*context.files);
      options_.env = env_.get();
      options_.use_direct_reads = false;
      options_.use_direct_io_for_flush_and_compaction = false;
    }
    rocksdb::DB* db = nullptr;
    if (read_only) {
      require(rocksdb::DB::OpenForReadOnly(options_, path_, &db), "open", 0);
    } else {
      require(rocksdb::DB::Open(options_, path_, &db), "open", 0);
    }
    db_.reset(db);
  }

  const char* name() const override { return "rocksdb"; }

  void read(uint32_t table, std::span<const Id> ids, std::byte* const* into, bool* found) override {
    std::vector<char> keys(ids.size() * kKeyBytes);
    std::vector<rocksdb::Slice> slices(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      encode_key(table, ids[i], &keys[i * kKeyBytes]);
      slices[i] = rocksdb::Slice(&keys[i * kKeyBytes], kKeyBytes);
    }
    std::vector<rocksdb::PinnableSlice> values(ids.size());
    std::vector<rocksdb::Status> statuses(ids.size());
    db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), ids.size(), slices.data(),
                  values.data(), statuses.data(), true);
    uint64_t hits = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      found[i] = statuses[i].ok();
      if (!found[i]) {
        if (!statuses[i].IsNotFound()) {
          require(statuses[i], "read", ids.size());
        }
        continue;
      }
      check_size(table, ids[i], values[i].size());
      std::memcpy(into[i], values[i].data(), values[i].size());
      ++hits;
    }
    rows_read_ += ids.size();
    rows_found_ += hits;
    get_on();
  }

  void write(std::span<const RowWrite> rows) override {
    const std::lock_guard lock(write_mutex_);
    uint64_t bytes = 0;
    for (const RowWrite& row : rows) {
      bytes += row.record == nullptr ? 0 : context_.record_bytes[row.table];
    }
    if (bytes >= kIngestBytes) {
      ingest(rows, bytes);
    } else if (!rows.empty()) {
      put(rows);
    }
    rows_written_ += rows.size();
    bytes_written_ += bytes;
    get_on();
  }

  using RowStore::scan;
  void scan(uint32_t table, uint64_t after_step, const RowVisitor& visit) override {
    char first[kKeyBytes];
    encode_key(table, 0, first);
    rocksdb::ReadOptions read;
    read.readahead_size = 2 << 20;
    if (after_step > 0) {
      read.table_filter = [after_step](const rocksdb::TableProperties& properties) {
        return newest_step(properties) > after_step;
      };
    }
    uint64_t seen = 0;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
    for (it->Seek(rocksdb::Slice(first, kKeyBytes));
         it->Valid() && it->key().size() == kKeyBytes && it->key()[0] == first[0] &&
         it->key()[1] == first[1];
         it->Next()) {
      const Id id = decode_id(it->key());
      check_size(table, id, it->value().size());
      if (++seen % kStretch == 0) {
        get_on();
      }
      const auto* record = reinterpret_cast<const std::byte*>(it->value().data());
      if (after_step == 0 || load_header(record).step > after_step) {
        visit(id, record);
      }
    }
    require(it->status(), "scan", 0);
  }

  std::vector<StoreFile> checkpoint(const std::string& folder) override {
    require(db_->DisableFileDeletions(), "checkpoint", 0);
    std::vector<StoreFile> out;
    try {
      out = link_files(folder);
    } catch (...) {
      db_->EnableFileDeletions(false).PermitUncheckedError();
      throw;
    }
    require(db_->EnableFileDeletions(false), "checkpoint", 0);
    return out;
  }

  StoreStats stats() const override {
    uint64_t tables = 0;
    uint64_t buffers = 0;
    db_->GetIntProperty(rocksdb::DB::Properties::kEstimateTableReadersMem, &tables);
    db_->GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &buffers);
    return {.rows_read = rows_read_,
            .rows_found = rows_found_,
            .rows_written = rows_written_,
            .bytes_written = bytes_written_,
            .memory_bytes = tables + buffers};
  }

 private:
  void require(const rocksdb::Status& status, const char* what, size_t rows) const {
    if (status.ok()) {
      return;
    }
    const int error = status.IsNoSpace() ? ENOSPC : status.IsIOError() ? EIO : 0;
    throw IoError(
        fmt::format("{}: rocksdb: cannot {}{}: {}", path_, what,
                    rows == 0 ? std::string() : fmt::format(" {} rows", rows), status.ToString()),
        error);
  }
  void check_size(uint32_t table, Id id, size_t size) const {
    if (size != context_.record_bytes[table]) {
      throw IoError(fmt::format("{}: rocksdb: row {} of table {} has {} bytes, expected {}", path_,
                                id, table, size, context_.record_bytes[table]));
    }
  }

  void put(std::span<const RowWrite> rows) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    rocksdb::WriteBatch batch;
    char key[kKeyBytes];
    for (const RowWrite& row : rows) {
      encode_key(row.table, row.id, key);
      const rocksdb::Slice name(key, kKeyBytes);
      require(row.record == nullptr
                  ? batch.Delete(name)
                  : batch.Put(name, rocksdb::Slice(reinterpret_cast<const char*>(row.record),
                                                   context_.record_bytes[row.table])),
              "write", rows.size());
    }
    require(db_->Write(options, &batch), "write", rows.size());
  }

  // Sorted files side by side, then one ingestion that makes all of them visible.
  void ingest(std::span<const RowWrite> rows, uint64_t bytes) {
    // More than processors: a writer waits for the disk half of the time.
    const uint64_t parts = std::max((bytes + kFileBytes - 1) / kFileBytes,
                                    std::min<uint64_t>(4, bytes / (16 << 20) + 1));
    const uint64_t each = (rows.size() + parts - 1) / parts;
    rocksdb::IngestExternalFileArg arg;
    arg.column_family = db_->DefaultColumnFamily();
    arg.options.move_files = true;
    arg.options.write_global_seqno = false;
    arg.options.verify_file_checksum = false;
    const auto count = static_cast<int64_t>((rows.size() + each - 1) / each);
    arg.external_files.resize(static_cast<size_t>(count));
    arg.files_checksums.resize(static_cast<size_t>(count));
    arg.files_checksum_func_names.resize(static_cast<size_t>(count));
    for (std::string& file : arg.external_files) {
      file = fmt::format("{}/ingest-{}.sst", path_, next_file_++);
    }
    try {
      context_.workers->parallel_for(count, 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          const size_t first = i * each;
          rocksdb::ExternalSstFileInfo info;
          write_sorted(rows.subspan(first, std::min<size_t>(each, rows.size() - first)),
                       arg.external_files[i], info);
          arg.files_checksums[i] = info.file_checksum;
          arg.files_checksum_func_names[i] = info.file_checksum_func_name;
        }
      });
      require(db_->IngestExternalFiles({arg}), "ingest", rows.size());
    } catch (...) {
      for (const std::string& file : arg.external_files) {
        try {
          if (context_.files->exists(file)) {
            context_.files->remove(file);
          }
        } catch (const IoError&) {
          // The first error is the one to report; opening again deletes what is left.
        }
      }
      throw;
    }
  }

  void write_sorted(std::span<const RowWrite> rows, const std::string& file,
                    rocksdb::ExternalSstFileInfo& info) {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options_), options_,
                                  db_->DefaultColumnFamily());
    require(writer.Open(file), "write", rows.size());
    char key[kKeyBytes];
    constexpr size_t kAhead = 4;  // rows lie anywhere in memory
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + kAhead < rows.size() && rows[i + kAhead].record != nullptr) {
        const RowWrite& next = rows[i + kAhead];
        for (uint32_t line = 0; line < context_.record_bytes[next.table]; line += 64) {
          __builtin_prefetch(next.record + line);
        }
      }
      const RowWrite& row = rows[i];
      encode_key(row.table, row.id, key);
      if (i % kStretch == 0) {
        get_on();
      }
      const rocksdb::Slice name(key, kKeyBytes);
      const rocksdb::Status status =
          row.record == nullptr
              ? writer.Delete(name)
              : writer.Put(name, rocksdb::Slice(reinterpret_cast<const char*>(row.record),
                                                context_.record_bytes[row.table]));
      require(status, "write", rows.size());
    }
    require(writer.Finish(&info), "write", rows.size());
  }

  std::vector<StoreFile> link_files(const std::string& folder) {
    // Not the flush that asking for the files would do: that one waits for compaction where many files have come in, for minutes.
    rocksdb::FlushOptions flush;
    flush.allow_write_stall = true;
    require(db_->Flush(flush), "checkpoint", 0);
    rocksdb::LiveFilesStorageInfoOptions info_options;
    info_options.include_checksum_info = true;
    info_options.wal_size_for_flush = std::numeric_limits<uint64_t>::max();
    std::vector<rocksdb::LiveFileStorageInfo> infos;
    require(db_->GetLiveFilesStorageInfo(info_options, &infos), "checkpoint", 0);
    FileSystem& files = *context_.files;
    files.create_directories(folder);
    std::vector<StoreFile> out;
    for (const rocksdb::LiveFileStorageInfo& info : infos) {
      get_on();
      if (info.file_type == rocksdb::kWalFile) {
        continue;  // empty: nothing is ever logged
      }
      const std::string target = join_path(folder, info.relative_filename);
      const std::string source = join_path(info.directory, info.relative_filename);
      if (info.file_type == rocksdb::kTableFile && info.file_checksum.starts_with("crc32c:")) {
        link_or_copy(files, source, target);
        out.push_back(
            {.name = info.relative_filename, .size = info.size, .digest = info.file_checksum});
        continue;
      }
      std::string content =
          info.replacement_contents.empty() ? files.read(source) : info.replacement_contents;
      if (info.trim_to_size && content.size() > info.size) {
        content.resize(info.size);
      }
      const auto file = files.open(target, WriteMode::kTruncate);
      file->append(content);
      file->sync();
      file->close();
      out.push_back({.name = info.relative_filename,
                     .size = content.size(),
                     .digest = fmt::format("crc32c:{:08x}", crc32c(as_bytes(content)))});
    }
    files.sync_directory(folder);
    return out;
  }

  StoreContext context_;
  std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;  // before what it uses
  std::mutex write_mutex_;
  uint64_t next_file_ = 0;
  std::atomic<uint64_t> rows_read_ = 0;
  std::atomic<uint64_t> rows_found_ = 0;
  std::atomic<uint64_t> rows_written_ = 0;
  std::atomic<uint64_t> bytes_written_ = 0;
};

}  // namespace

bool has_rocksdb() { return true; }

std::unique_ptr<RowStore> open_rocksdb_store(const StoreContext& context, const std::string& live,
                                             const std::string& from) {
  FileSystem& files = *context.files;
  files.remove_all(live);
  files.create_directories(live);
  if (!from.empty()) {
    for (const std::string& name : files.list(from)) {
      const std::string source = join_path(from, name);
      const std::string target = join_path(live, name);
      if (name.ends_with(".sst")) {
        link_or_copy(files, source, target);
      } else {  // RocksDB writes to these
        copy_file(files, source, target);
      }
    }
  }
  return std::make_unique<RocksdbStore>(context, live, false);
}

std::unique_ptr<RowStore> open_rocksdb_read_only(const StoreContext& context,
                                                 const std::string& from) {
  return std::make_unique<RocksdbStore>(context, from, true);
}

}  // namespace mstrain::embedding_cache

#else

namespace mstrain::embedding_cache {

bool has_rocksdb() { return false; }

std::unique_ptr<RowStore> open_rocksdb_store(const StoreContext&, const std::string& live,
                                             const std::string&) {
  fail("{}: embedding_cache was built without RocksDB; use store.kind: memory", live);
}
std::unique_ptr<RowStore> open_rocksdb_read_only(const StoreContext&, const std::string& from) {
  fail("{}: embedding_cache was built without RocksDB", from);
}

}  // namespace mstrain::embedding_cache

#endif
