// Cold rows and bulk loads against RocksDB itself and the disk.
#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>

#include "benchmarks/embedding_cache_race.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/base/thread_pool.h"
#include "embedding_cache/commit_store.h"

namespace mstrain::embedding_cache {

namespace {

void make_record(const RowLayout& layout, Id id, std::byte* record) {
  std::memset(record, static_cast<int>(id & 0x3f), layout.record_bytes());
  store_header(record, {.step = 1, .updates = 1});
}

}  // namespace

void bench_prepare(const std::string& directory) {
  std::filesystem::remove_all(directory);
  Cache cache = Cache::open(disk_options(directory, 1000));
  const RowLayout& layout = cache.layout(0);
  const uint32_t bytes = layout.record_bytes();
  constexpr uint64_t kChunk = 250'000;
  std::vector<std::byte> records(kChunk * bytes);
  std::vector<Id> ids(kChunk);
  const double start = now();
  for (uint64_t first = 0; first < kVocabulary; first += kChunk) {
    const uint64_t count = std::min(kChunk, kVocabulary - first);
    for (uint64_t i = 0; i < count; ++i) {
      ids[i] = first + i;
      make_record(layout, first + i, records.data() + i * bytes);
    }
    cache.load(0, std::span(ids).first(count), std::span(records).first(count * bytes));
  }
  cache.commit_step(1);
  const double took = now() - start;
  fmt::print("prepare: {} rows of {} B ({:.2f} GB) loaded and committed in {:.1f} s\n", kVocabulary,
             bytes, static_cast<double>(kVocabulary) * bytes / 1e9, took);
}

namespace {

// Random reads of 4 KiB past the page cache, `threads` at a time.
double device_reads_per_second(const std::string& folder, int threads, double duration) {
  std::vector<std::pair<int, uint64_t>> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".sst") {
      files.emplace_back(::open(entry.path().c_str(), O_RDONLY | O_DIRECT),
                         entry.file_size() / 4096);
    }
  }
  std::atomic<uint64_t> reads = 0;
  const double until = now() + duration;
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      Rng rng(99, static_cast<uint64_t>(t));
      void* block = nullptr;
      check(::posix_memalign(&block, 4096, 4096) == 0, "no memory");
      while (now() < until) {
        const auto& [file, blocks] = files[rng.below(files.size())];
        check(::pread(file, block, 4096, static_cast<off_t>(rng.below(blocks) * 4096)) == 4096,
              "pread failed");
        ++reads;
      }
      std::free(block);
    });
  }
  for (std::thread& thread : pool) {
    thread.join();
  }
  for (const auto& [file, blocks] : files) {
    ::close(file);
  }
  return static_cast<double>(reads) / duration;
}

void encode_key(Id id, char* out) {
  std::memset(out, 0, 2);
  for (int i = 0; i < 8; ++i) {
    out[2 + i] = static_cast<char>(id >> (56 - 8 * i));
  }
}

// What a user would write: MultiGets over sorted keys on so many threads.
void raw_multi_get(rocksdb::DB& db, ThreadPool& pool, const std::vector<Id>& ids, size_t chunk,
                   std::vector<std::byte>& out, uint32_t bytes) {
  pool.parallel_for(static_cast<int64_t>(ids.size()), static_cast<int64_t>(chunk),
                    [&](int64_t begin, int64_t end) {
                      const auto count = static_cast<size_t>(end - begin);
                      std::vector<char> keys(count * 10);
                      std::vector<rocksdb::Slice> slices(count);
                      for (size_t i = 0; i < count; ++i) {
                        encode_key(ids[static_cast<size_t>(begin) + i], &keys[i * 10]);
                        slices[i] = {&keys[i * 10], 10};
                      }
                      std::vector<rocksdb::PinnableSlice> values(count);
                      std::vector<rocksdb::Status> statuses(count);
                      db.MultiGet({}, db.DefaultColumnFamily(), count, slices.data(), values.data(),
                                  statuses.data(), true);
                      for (size_t i = 0; i < count; ++i) {
                        check(statuses[i].ok(), "row {} is missing",
                              ids[static_cast<size_t>(begin) + i]);
                        std::memcpy(out.data() + (static_cast<size_t>(begin) + i) * bytes,
                                    values[i].data(), values[i].size());
                      }
                    });
}

std::unique_ptr<rocksdb::DB> open_raw(const std::string& folder, bool direct, size_t cache_bytes) {
  rocksdb::Options options;
  options.use_direct_reads = direct;
  options.max_open_files = -1;
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
  table.no_block_cache = cache_bytes == 0;
  if (cache_bytes > 0) {
    table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, folder, &db);
  check(status.ok(), "{}: {}", folder, status.ToString());
  return std::unique_ptr<rocksdb::DB>(db);
}

}  // namespace

void bench_cold(const std::string& directory) {
  constexpr size_t kFetch = 30'000;
  Cache cache = Cache::open(disk_options(directory, kFetch + 10));
  const std::string folder = join_path(commit_folder(directory, cache.last_commit()), "rows");
  const uint32_t bytes = cache.layout(0).record_bytes();
  const auto raw = open_raw(folder, true, 0);
  ThreadPool pool(15);  // the caller is the 16th
  std::vector<std::byte> out(kFetch * bytes);
  Rng rng(7);
  fmt::print("cold: {} random rows of {} B a fetch, direct I/O, 16 reads in flight\n", kFetch,
             bytes);
  std::vector<double> ours;
  std::vector<double> peer;
  std::vector<double> ratios;
  std::vector<double> at16;
  std::vector<double> at64;
  std::vector<double> of_device;
  uint64_t step = cache.last_step();
  for (int round = 0; round < 10; ++round) {
    std::vector<Id> ids(kFetch);
    for (Id& id : ids) {
      id = rng.below(kVocabulary);
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    const double a = seconds([&] {
      Ticket ticket = cache.prefetch(0, ids, ++step, Use::kRead);
      cache.wait(ticket);
      cache.release(std::move(ticket));
    });
    for (Id& id : ids) {
      id = rng.below(kVocabulary);
    }
    std::sort(ids.begin(), ids.end());
    double best = 1e9;
    for (const size_t chunk : {size_t{128}, size_t{512}, ids.size() / 16 + 1}) {
      best = std::min(best, seconds([&] { raw_multi_get(*raw, pool, ids, chunk, out, bytes); }));
    }
    if (round > 0) {
      ours.push_back(static_cast<double>(ids.size()) / a);
      peer.push_back(static_cast<double>(ids.size()) / best);
      ratios.push_back(best / a);
      at16.push_back(device_reads_per_second(folder, 16, 0.7));
      at64.push_back(device_reads_per_second(folder, 64, 0.7));
      of_device.push_back(ours.back() / std::max(at16.back(), at64.back()));
    }
  }
  fmt::print(
      "  ours {:.0f} rows/s   best raw MultiGet of three chunk sizes {:.0f} rows/s   device {:.0f} "
      "reads/s at 16, {:.0f} at 64 threads\n",
      median(ours), median(peer), median(at16), median(at64));
  verdict("cold fetch against raw MultiGet", median(ratios), "", 0.90, true);
  verdict("cold fetch against the device's limit", median(of_device), "", 0.50, true);
  // What a user would pick instead of a cache: the same table with a block cache that holds everything asked for.
  const auto cached = open_raw(folder, false, size_t{2} << 30);
  std::vector<Id> ids(kFetch);
  for (Id& id : ids) {
    id = rng.below(kVocabulary);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ThreadPool two(1);
  std::vector<float> flat(ids.size() * 81);
  const double ratio = race(
      "resident rows: prefetch to gather", "RocksDB, all in its block cache",
      static_cast<double>(ids.size()), 5,
      [&] {
        Ticket ticket = cache.prefetch(0, ids, ++step, Use::kRead);
        cache.wait(ticket);
        cache.gather(ticket, flat.data(), 81);
        cache.release(std::move(ticket));
      },
      [&] { raw_multi_get(*cached, two, ids, 1024, out, bytes); });
  fmt::print("  resident rows: {:.1f} x a RocksDB block cache, two threads\n", ratio);
}

void bench_bulk(const std::string& directory) {
  constexpr uint64_t kRows = 2'000'000;
  constexpr uint32_t kRecord = 320;
  Options options = disk_options(directory, 1000);
  options.store.direct_io = false;
  options.threads = 1;
  options.tables = {{.name = "t", .host_rows = 1000, .segments = {{.width = 78}}}};
  std::vector<Id> ids(kRows);
  std::iota(ids.begin(), ids.end(), Id{0});
  std::vector<std::byte> records(kRows * kRecord);
  const RowLayout layout(options.tables[0]);
  check(layout.record_bytes() == kRecord, "rows of {} bytes", layout.record_bytes());
  for (uint64_t i = 0; i < kRows; ++i) {
    make_record(layout, i, records.data() + i * kRecord);
  }
  fmt::print("bulk: {} rows of {} B, one thread each\n", kRows, kRecord);
  std::vector<double> ratios;
  std::vector<double> rates[2];
  for (int round = 0; round < 4; ++round) {
    std::filesystem::remove_all(directory);
    double ours = 0;
    {
      Cache cache = Cache::open(options);
      ours = seconds([&] { cache.load(0, ids, records); });
    }
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    rocksdb::Options raw;
    raw.create_if_missing = true;
    raw.compression = rocksdb::kNoCompression;
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
    raw.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(raw, directory + "/raw", &db).ok(), "cannot open");
    const std::unique_ptr<rocksdb::DB> owned(db);
    const double peer = seconds([&] {
      const std::string file = directory + "/raw/bulk.sst";
      rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), raw);
      check(writer.Open(file).ok(), "cannot write");
      char key[10];
      for (uint64_t i = 0; i < kRows; ++i) {
        encode_key(i, key);
        check(
            writer
                .Put(rocksdb::Slice(key, 10),
                     rocksdb::Slice(reinterpret_cast<const char*>(&records[i * kRecord]), kRecord))
                .ok(),
            "cannot write");
      }
      check(writer.Finish().ok(), "cannot write");
      rocksdb::IngestExternalFileOptions ingest;
      ingest.move_files = true;
      check(db->IngestExternalFile({file}, ingest).ok(), "cannot ingest");
    });
    rates[0].push_back(kRows / ours / 1e6);
    rates[1].push_back(kRows / peer / 1e6);
    ratios.push_back(peer / ours);
  }
  std::filesystem::remove_all(directory);
  fmt::print("  ours {:.2f} M rows/s   raw sorted file + ingest {:.2f} M rows/s\n",
             median(rates[0]), median(rates[1]));
  verdict("bulk load against the raw writer", median(ratios), "", 0.80, true);
}

}  // namespace mstrain::embedding_cache
