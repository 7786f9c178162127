// The embedding cache against the machine's limits and against what a user would pick otherwise, in the same run, interleaved.
//   bench_embedding_cache SECTION [DIRECTORY]
// Sections in memory: dedup gather update hits memory. On disk (DIRECTORY, about 8 GB, removed by `clean`): prepare, then cold, train,
// commit; bulk by itself. Workload: 39 fields x 16,000 samples, 26 of them Zipf 1.05 over 5.86 M ids, 13 fixed.
#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "core/base/thread_pool.h"
#include "embedding_cache/cache.h"
#include "embedding_cache/commit_store.h"
#include "embedding_cache/dedup.h"
#include "embedding_cache/host_slots.h"
#include "embedding_cache/id_map.h"
#include "embedding_cache/replay.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kVocabulary = 5'860'000;
constexpr uint64_t kSamples = 16'000;
constexpr uint64_t kSeed = 1;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F>
double seconds(F&& body) {
  const double start = now();
  body();
  return now() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void verdict(const char* name, double value, const char* unit, double bar, bool at_least) {
  const bool met = at_least ? value >= bar : value <= bar;
  fmt::print("  -> {}: {:.3f}{} (bar {} {}{}) {}\n", name, value, unit, at_least ? ">=" : "<=", bar,
             unit, met ? "met" : "NOT MET");
}

// Runs both in turn; prints medians and returns the median of ours / peer in rates.
template <class Ours, class Peer>
double race(const char* ours_name, const char* peer_name, double items, int repeats, Ours&& ours,
            Peer&& peer) {
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  ours();
  peer();
  for (int i = 0; i < repeats; ++i) {
    a.push_back(seconds(ours));
    b.push_back(seconds(peer));
    ratios.push_back(b.back() / a.back());
  }
  fmt::print("  {:<34} {:>9.2f} M/s   {:<34} {:>9.2f} M/s\n", ours_name, items / median(a) / 1e6,
             peer_name, items / median(b) / 1e6);
  return median(ratios);
}

// Exact Zipf by inversion, with a guide so that a draw is a few steps.
class Zipf {
 public:
  Zipf(uint64_t rows, double alpha) : sums_(rows), guide_((1 << 20) + 1) {
    double sum = 0;
    for (uint64_t k = 0; k < rows; ++k) {
      sums_[k] = sum += std::pow(static_cast<double>(k + 1), -alpha);
    }
    for (double& s : sums_) {
      s /= sum;
    }
    uint64_t k = 0;
    for (size_t g = 0; g < guide_.size(); ++g) {
      while (k + 1 < rows && sums_[k] < static_cast<double>(g) / (1 << 20)) {
        ++k;
      }
      guide_[g] = static_cast<uint32_t>(k);
    }
  }
  uint64_t draw(Rng& rng) const {
    const double u = rng.uniform();
    const auto g = static_cast<size_t>(u * (1 << 20));
    const auto first = sums_.begin() + guide_[g];
    const auto last = sums_.begin() + guide_[std::min(g + 1, guide_.size() - 1)] + 1;
    return static_cast<uint64_t>(std::lower_bound(first, std::min(last, sums_.end()), u) -
                                 sums_.begin());
  }

 private:
  std::vector<double> sums_;
  std::vector<uint32_t> guide_;
};

// Hot ids are not neighbours.
Id scatter(uint64_t rank) { return rank * 2'654'435'761U % kVocabulary; }

std::vector<std::vector<Id>> make_batches(size_t count, bool fixed_fields) {
  const Zipf zipf(kVocabulary, 1.05);
  std::vector<std::vector<Id>> out(count);
  for (size_t b = 0; b < count; ++b) {
    Rng rng(kSeed, b);
    for (uint64_t s = 0; s < kSamples; ++s) {
      if (fixed_fields) {
        for (Id field = 0; field < 13; ++field) {
          out[b].push_back(kVocabulary + field);
        }
      }
      for (int field = 0; field < 26; ++field) {
        out[b].push_back(scatter(zipf.draw(rng)));
      }
    }
  }
  return out;
}

Segment adam_segment(uint32_t width) {
  return {.width = width, .optimizer = {.kind = OptimizerKind::kLazyAdam, .lr = 3.5e-4F}};
}

// 80 weights and moments, a wide weight with FTRL: 980 bytes.
TableOptions wide_deep_table(uint64_t host_rows) {
  TableOptions table{.name = "t", .host_rows = host_rows};
  table.segments = {
      adam_segment(80),
      {.width = 1,
       .optimizer = {.kind = OptimizerKind::kFtrl, .lr = 0.05F, .initial_accumulator = 1},
       .init = {.kind = InitKind::kZero}}};
  return table;
}

// ---- in memory ------------------------------------------------------------------------------

// The plainest loop that does the work: keys and numbers in one table of twice the room, cleared before each batch.
size_t raw_dedup(const std::vector<Id>& ids, std::vector<Id>& keys, std::vector<uint32_t>& numbers,
                 std::vector<Id>& unique, std::vector<uint32_t>& inverse) {
  const uint64_t mask = keys.size() - 1;
  std::fill(numbers.begin(), numbers.end(), ~0U);
  unique.clear();
  for (size_t i = 0; i < ids.size(); ++i) {
    uint64_t at = (ids[i] * 0x9e3779b97f4a7c15U >> 32) & mask;
    while (numbers[at] != ~0U && keys[at] != ids[i]) {
      at = (at + 1) & mask;
    }
    if (numbers[at] == ~0U) {
      keys[at] = ids[i];
      numbers[at] = static_cast<uint32_t>(unique.size());
      unique.push_back(ids[i]);
    }
    inverse[i] = numbers[at];
  }
  return unique.size();
}

void bench_dedup() {
  const auto batches = make_batches(6, true);
  fmt::print("dedup: {} ids a batch\n", batches[0].size());
  Dedup dedup;
  Batch batch;
  std::vector<Id> keys(1 << 19);
  std::vector<uint32_t> numbers(1 << 19);
  std::vector<Id> unique;
  std::vector<uint32_t> inverse(batches[0].size());
  size_t next = 0;
  const double ratio = race(
      "dedup", "raw probe loop", static_cast<double>(batches[0].size()), 25,
      [&] { dedup.run(batches[next % 6], batch); },
      [&] { raw_dedup(batches[next++ % 6], keys, numbers, unique, inverse); });
  fmt::print("  {} distinct\n", batch.unique.size());
  verdict("dedup against the raw loop", ratio, "", 0.70, true);
}

void bench_gather() {
  const auto batches = make_batches(4, true);
  Options options;
  options.store.kind = StoreKind::kMemory;
  options.tables = {{.name = "t", .host_rows = 900'000, .segments = {{.width = 80}}}};
  Cache cache = Cache::open(options);
  const uint64_t positions = batches[0].size();
  fmt::print("gather: {} positions a batch, 80 floats, rows of 328 B in memory\n", positions);
  std::vector<Ticket> tickets;
  IdMap numbers;
  std::vector<std::vector<uint32_t>> index(batches.size());
  for (size_t b = 0; b < batches.size(); ++b) {
    tickets.push_back(cache.prefetch(0, batches[b], b + 1, Use::kRead));
    cache.wait(tickets.back());
    for (const Id id : batches[b]) {
      index[b].push_back(static_cast<uint32_t>(numbers.at(id, numbers.size())));
    }
  }
  std::vector<float> matrix(numbers.size() * 80, 1.0F);
  std::vector<float> flat(positions * 80);
  constexpr size_t kTile = 256;
  std::vector<float> tile(kTile * 80);
  size_t next = 0;
  double sink = 0;
  const double tiled = race(
      "gather, tiles of 256", "raw loop into the same tile", static_cast<double>(positions), 15,
      [&] {
        const Ticket& ticket = tickets[next % 4];
        for (size_t p = 0; p < positions; p += kTile) {
          cache.gather(ticket, tile.data(), 80,
                       {.begin = p, .end = std::min(p + kTile, positions)});
          sink += tile[5];
        }
      },
      [&] {
        const auto& rows = index[next++ % 4];
        for (size_t p = 0; p < positions; p += kTile) {
          for (size_t i = p; i < std::min(p + kTile, positions); ++i) {
            std::memcpy(&tile[(i - p) * 80], &matrix[size_t{rows[i]} * 80], 320);
          }
          sink += tile[5];
        }
      });
  verdict("tiled gather against the raw loop", tiled, "", 0.75, true);
  const double whole = race(
      "gather, flat 200 MB", "raw loop, flat", static_cast<double>(positions), 7,
      [&] { cache.gather(tickets[next % 4], flat.data(), 80); },
      [&] {
        const auto& rows = index[next++ % 4];
        for (size_t i = 0; i < positions; ++i) {
          std::memcpy(&flat[i * 80], &matrix[size_t{rows[i]} * 80], 320);
        }
      });
  fmt::print("  flat gather: {:.2f} of the raw loop (sum {})\n", whole, sink);
  for (Ticket& ticket : tickets) {
    cache.release(std::move(ticket));
  }
}

void bench_update() {
  const auto batches = make_batches(1, false);
  Options options;
  options.store.kind = StoreKind::kMemory;
  options.tables = {{.name = "t", .host_rows = 200'000, .segments = {adam_segment(80)}}};
  Cache cache = Cache::open(options);
  Dedup dedup;
  Batch batch;
  dedup.run(batches[0], batch);
  const size_t rows = batch.unique.size();
  std::vector<float> gradients(rows * 80, 0.01F);
  // A row: weights and two moments read and written, gradients read: 7 x 320 B. A copy of n bytes moves 2 n.
  const size_t bytes = rows * 320 * 7;
  std::vector<char> from(bytes / 2, 1);
  std::vector<char> to(bytes / 2, 2);
  fmt::print("update: lazy Adam on {} distinct rows of 80 floats, {:.0f} MB moved\n", rows,
             static_cast<double>(bytes) / 1e6);
  uint64_t step = 0;
  std::vector<double> ratios;
  std::vector<double> ours;
  std::vector<double> peer;
  for (int i = 0; i < 16; ++i) {
    Ticket ticket = cache.prefetch(0, batch.unique, ++step);
    cache.wait(ticket);
    const double a = seconds([&] { cache.update(ticket, gradients, GradientsOf::kDistinctIds); });
    cache.release(std::move(ticket));
    const double b = seconds([&] { std::memcpy(to.data(), from.data(), from.size()); });
    if (i > 0) {
      ours.push_back(a);
      peer.push_back(b);
      ratios.push_back(b / a);
    }
  }
  fmt::print("  update {:.2f} M rows/s, {:.2f} GB/s   copy {:.2f} GB/s\n",
             static_cast<double>(rows) / median(ours) / 1e6,
             static_cast<double>(bytes) / median(ours) / 1e9,
             static_cast<double>(bytes) / median(peer) / 1e9);
  verdict("lazy Adam against copying", median(ratios), "", 0.60, true);
}

void bench_hits() {
  const size_t count = 40;
  const auto batches = make_batches(count, false);
  std::vector<Id> log;
  for (const auto& batch : batches) {
    log.insert(log.end(), batch.begin(), batch.end());
  }
  fmt::print("hits: {} batches of {} lookups, 6 batches of look-ahead, the first 20 not counted\n",
             count, batches[0].size());
  double worst_lru = 1;
  double worst_optimum = 1;
  for (const uint64_t rows : {130'000, 180'000, 293'000, 586'000}) {
    const ReplayOptions options{
        .host_rows = rows, .batch = batches[0].size(), .look_ahead = 6, .skip_batches = 20};
    const ReplayResult lru = replay(log, Policy::kLru, options);
    const ReplayResult lfu = replay(log, Policy::kLfu, options);
    const ReplayResult ahead = replay(log, Policy::kLookAhead, options);
    const ReplayResult optimum = replay_optimum(log, options);
    fmt::print(
        "  {:>7} rows  hits per lookup: lru {:.2f}  lfu {:.2f}  look-ahead {:.2f}  optimum for "
        "the window {:.2f} %   per id: {:.2f} {:.2f} {:.2f} {:.2f} %\n",
        rows, 100 * lru.hits_per_lookup(), 100 * lfu.hits_per_lookup(),
        100 * ahead.hits_per_lookup(), 100 * optimum.hits_per_lookup(), 100 * lru.hits_per_id(),
        100 * lfu.hits_per_id(), 100 * ahead.hits_per_id(), 100 * optimum.hits_per_id());
    worst_lru = std::min(worst_lru, ahead.hits_per_lookup() - lru.hits_per_lookup());
    worst_optimum = std::min(worst_optimum, ahead.hits_per_id() - optimum.hits_per_id());
  }
  verdict("look-ahead minus lru, worst size", 100 * worst_lru, " points", 0, true);
  verdict("look-ahead minus optimum, per id, worst size", 100 * worst_optimum, " points", -1, true);
}

uint64_t resident_bytes() {
  const std::string text = real_files().read("/proc/self/statm");
  return std::stoull(text.substr(text.find(' '))) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void bench_memory() {
  constexpr uint64_t kRows = 5'000'000;  // so that a huge page more or less does not count
  constexpr uint32_t kRecord = 980;
  const uint64_t before = resident_bytes();
  HostSlots host(kRows, kRecord, Policy::kLookAhead);
  for (Id id = 0; id < kRows; ++id) {
    const Slot slot = host.insert(hash_mix(id));
    std::memset(host.record(slot), 1, kRecord);
  }
  const uint64_t after = resident_bytes();
  const double measured = static_cast<double>(after - before) / kRows - kRecord;
  fmt::print("memory: {} rows of {} B: {:.2f} B a row by count\n", kRows, kRecord,
             static_cast<double>(host.overhead_bytes()) / kRows);
  verdict("resident memory beyond the record", measured, " B", 16, false);
}

// ---- on disk --------------------------------------------------------------------------------

Options disk_options(const std::string& directory, uint64_t host_rows) {
  Options options;
  options.directory = directory;
  options.store.kind = StoreKind::kRocksdb;
  options.store.direct_io = true;
  options.store.read_threads = 16;
  options.threads = 2;
  options.keep = 1;
  options.tables = {wide_deep_table(host_rows)};
  return options;
}

void make_record(const RowLayout& layout, Id id, std::byte* record) {
  std::memset(record, static_cast<int>(id & 0x3f), layout.record_bytes());
  store_header(record, {.step = 1, .updates = 1});
}

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
    }
  }
  const double at16 = device_reads_per_second(folder, 16, 2);
  const double at64 = device_reads_per_second(folder, 64, 2);
  fmt::print(
      "  ours {:.0f} rows/s   best raw MultiGet of three chunk sizes {:.0f} rows/s   device {:.0f} "
      "reads/s at 16, {:.0f} at 64 threads\n",
      median(ours), median(peer), at16, at64);
  verdict("cold fetch against raw MultiGet", median(ratios), "", 0.90, true);
  verdict("cold fetch against the device's limit", median(ours) / std::max(at16, at64), "", 0.50,
          true);
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

// Two threads of work that takes `target` seconds when nothing else runs.
class Compute {
 public:
  explicit Compute(double target) {
    double rate = 0;
    for (int i = 0; i < 2; ++i) {
      rate = 20'000'000 / seconds([] { spin(20'000'000); });
    }
    work_ = static_cast<uint64_t>(target * rate);
  }
  double run() const {
    return seconds([&] {
      std::thread other([&] { spin(work_); });
      spin(work_);
      other.join();
    });
  }

 private:
  static void spin(uint64_t n) {
    double x = 1;
    for (uint64_t i = 0; i < n; ++i) {
      x = x * 1.0000001 + 1e-9;
      asm volatile("" : "+x"(x));
    }
  }
  uint64_t work_;
};

void train_once(const std::string& directory, const std::vector<std::vector<Id>>& batches,
                const Compute& compute, uint32_t depth, int readers, size_t steps) {
  Options options = disk_options(directory, kVocabulary / 10);
  options.store.read_threads = readers;
  Cache cache = Cache::open(options);
  // Warm: the hottest rows, as they would be after a while.
  uint64_t step = cache.last_step();
  const uint64_t first_hot = kVocabulary / 10 - 1;
  for (uint64_t begin = 0; begin < first_hot; begin += 100'000) {
    std::vector<Id> ids;
    for (uint64_t rank = begin; rank < std::min(first_hot, begin + 100'000); ++rank) {
      ids.push_back(scatter(rank));
    }
    Ticket ticket = cache.prefetch(0, ids, ++step);
    cache.wait(ticket);
    cache.update(ticket, std::vector<float>(ids.size() * 81, 0.0F));
    cache.release(std::move(ticket));
  }
  std::deque<Ticket> open;
  size_t ahead = 0;
  std::vector<float> gradients;
  std::vector<float> out(256 * 81);
  const size_t warm = 3;
  double wait = 0;
  double total = 0;
  double busy = 0;
  Stats before;
  for (size_t s = 0; s < steps; ++s) {
    const double start = now();
    for (; ahead < std::min(steps, s + 1 + depth); ++ahead) {
      open.push_back(cache.prefetch(0, batches[ahead % batches.size()], ++step));
    }
    Ticket ticket = std::move(open.front());
    open.pop_front();
    const double waited = seconds([&] { cache.wait(ticket); });
    for (size_t p = 0; p < ticket.positions(); p += 256) {
      cache.gather(ticket, out.data(), 81, {.begin = p, .end = p + 256});
    }
    const double computed = compute.run();
    gradients.assign(ticket.ids().size() * 81, 0.001F);
    cache.update(ticket, gradients, GradientsOf::kDistinctIds);
    cache.release(std::move(ticket));
    if (s >= warm) {
      wait += waited;
      total += now() - start;
      busy += computed;
    } else if (s + 1 == warm) {
      before = cache.stats();
    }
  }
  const TableStats a = before.tables[0];
  const TableStats b = cache.stats().tables[0];
  const auto measured = static_cast<double>(steps - warm);
  fmt::print(
      "  depth {} readers {:>2}: step {:.3f} s, compute {:.3f} s, wait for rows {:.3f} s = {:.1f} "
      "% of the "
      "step; hits {:.1f} % per lookup, {:.1f} % per id, {:.0f} misses a batch\n",
      depth, readers, total / measured, busy / measured, wait / measured, 100 * wait / total,
      100 * static_cast<double>(b.position_hits - a.position_hits) /
          static_cast<double>(b.positions - a.positions),
      100 * static_cast<double>(b.id_hits - a.id_hits) / static_cast<double>(b.ids - a.ids),
      static_cast<double>((b.ids - b.id_hits) - (a.ids - a.id_hits)) / measured);
  if (depth == 2 && readers == 16) {
    verdict("wait for rows", 100 * wait / total, " % of the step", 5, false);
  }
}

void bench_train(const std::string& directory) {
  const auto batches = make_batches(12, false);
  const Compute compute(1.1);
  fmt::print(
      "train: rows of 980 B, host cap 10 % ({} rows), direct I/O, batch {} lookups; compute alone "
      "{:.3f} s\n",
      kVocabulary / 10, batches[0].size(), compute.run());
  train_once(directory, batches, compute, 2, 16, 11);
  train_once(directory, batches, compute, 0, 16, 7);
  train_once(directory, batches, compute, 0, 1, 5);
}

// The disk's own time for so many bytes: one file, large direct writes, synced.
double disk_write_seconds(const std::string& directory, uint64_t bytes) {
  const std::string path = directory + "/disk-limit";
  void* block = nullptr;
  constexpr size_t kBlock = 4 << 20;
  check(::posix_memalign(&block, 4096, kBlock) == 0, "no memory");
  std::memset(block, 1, kBlock);
  const double took = seconds([&] {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0644);
    check(file >= 0, "{}: cannot open", path);
    for (uint64_t done = 0; done < bytes; done += kBlock) {
      check(::write(file, block, kBlock) == static_cast<ssize_t>(kBlock), "{}: cannot write", path);
    }
    check(::fdatasync(file) == 0, "{}: cannot sync", path);
    ::close(file);
  });
  std::free(block);
  std::filesystem::remove(path);
  return took;
}

// A step of training whose rows are all in memory.
void learn(Cache& cache, const std::vector<Id>& ids, uint64_t step) {
  Ticket ticket = cache.prefetch(0, ids, step);
  cache.wait(ticket);
  cache.update(ticket, std::vector<float>(ids.size() * 81, 0.01F), GradientsOf::kDistinctIds);
  cache.release(std::move(ticket));
}

// 5 % of the rows change, then: the disk alone, a commit that the trainer waits for, and one that is written while it goes on.
void bench_commit(const std::string& directory) {
  const uint64_t dirty = kVocabulary / 20;
  Cache cache = Cache::open(disk_options(directory, dirty + 10));
  const uint64_t bytes = dirty * cache.layout(0).record_bytes();
  fmt::print("commit: {:.2f} GB of rows, {} changed ({:.0f} MB), direct I/O\n",
             static_cast<double>(kVocabulary) * cache.layout(0).record_bytes() / 1e9, dirty,
             static_cast<double>(bytes) / 1e6);
  std::vector<Id> ids;
  for (uint64_t i = 0; i < dirty; ++i) {
    ids.push_back(scatter(i));
  }
  const std::vector<Id> batch(ids.begin(), ids.begin() + 50'000);
  uint64_t step = cache.last_step();
  std::vector<double> plain_steps;
  std::vector<double> waited;
  std::vector<double> stopped;
  std::vector<double> slowed;
  for (int round = 0; round < 8; ++round) {
    learn(cache, ids, ++step);
    double disk = disk_write_seconds(directory, bytes);
    const double pause = seconds([&] { cache.commit_step(step); });
    fmt::print("  waited for: pause {:.3f} s, disk alone {:.3f} s\n", pause, disk);
    if (round > 0) {
      waited.push_back(pause / disk);
    } else {
      learn(cache, ids, ++step);
      const std::string file = directory + "/delta";
      ExportSummary some;
      const double took =
          seconds([&] { some = cache.export_delta(cache.last_commit(), file, false); });
      ExportSummary all;
      const double whole = seconds([&] { all = cache.export_delta(0, file, false); });
      std::filesystem::remove(file);
      fmt::print("  weights of the {} changed rows to a file {:.2f} s, of all {} rows {:.2f} s\n",
                 some.rows, took, all.rows, whole);
    }
    for (int i = 0; i < 5; ++i) {
      plain_steps.push_back(seconds([&] { learn(cache, batch, ++step); }));
    }
    learn(cache, ids, ++step);
    disk = disk_write_seconds(directory, bytes);
    const double begin = now();
    CommitId id = 0;
    double calls = seconds([&] { id = cache.start_commit(step); });
    double steps = 0;
    int count = 0;
    while (cache.last_commit() != id) {
      steps += seconds([&] { learn(cache, batch, ++step); });
      ++count;
    }
    const double durable = now() - begin;
    calls += seconds([&] { cache.commit(id); });
    const double slower = steps - count * median(plain_steps);
    fmt::print(
        "  behind:     stopped {:.3f} s, durable after {:.3f} s and {} steps, which took {:.3f} s "
        "longer; disk alone {:.3f} s\n",
        calls, durable, count, slower, disk);
    if (round > 0) {
      stopped.push_back(calls / disk);
      slowed.push_back((calls + slower) / disk);
    }
  }
  verdict("pause of a started commit over the disk's own time", median(stopped), "", 1.5, false);
  fmt::print("  with what the steps meanwhile took longer: {:.2f} of the disk's own time\n",
             median(slowed));
  verdict("pause of a commit that is waited for", median(waited), "", 1.5, false);
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

// Lookup and update of resident rows, for embedding_cache_vs_pytorch.py: prints rows per second.
void bench_resident() {
  const auto batches = make_batches(6, true);
  Options options;
  options.store.kind = StoreKind::kMemory;
  options.threads = 2;
  options.tables = {{.name = "t", .host_rows = 1'200'000, .segments = {adam_segment(80)}}};
  Cache cache = Cache::open(options);
  const size_t positions = batches[0].size();
  std::vector<float> out(positions * 80);
  std::vector<float> gradients(positions * 80, 0.01F);
  uint64_t step = 0;
  std::vector<double> times;
  for (int round = 0; round < 18; ++round) {
    const double took = seconds([&] {
      Ticket ticket = cache.prefetch(0, batches[static_cast<size_t>(round) % 6], ++step);
      cache.wait(ticket);
      cache.gather(ticket, out.data(), 80);
      cache.update(ticket, gradients);
      cache.release(std::move(ticket));
    });
    if (round >= 6) {
      times.push_back(took);
    }
  }
  fmt::print("{}\n", static_cast<double>(positions) / median(times));
}

int run(int argc, char** argv) {
  const std::string section = argc > 1 ? argv[1] : "";
  const std::string directory = argc > 2 ? argv[2] : "/tmp/mstrain-bench-cache";
  if (section == "dedup") {
    bench_dedup();
  } else if (section == "gather") {
    bench_gather();
  } else if (section == "update") {
    bench_update();
  } else if (section == "hits") {
    bench_hits();
  } else if (section == "memory") {
    bench_memory();
  } else if (section == "resident") {
    bench_resident();
  } else if (section == "prepare") {
    bench_prepare(directory);
  } else if (section == "cold") {
    bench_cold(directory);
  } else if (section == "train") {
    bench_train(directory);
  } else if (section == "commit") {
    bench_commit(directory);
  } else if (section == "bulk") {
    bench_bulk(directory + "-bulk");
  } else if (section == "clean") {
    std::filesystem::remove_all(directory);
  } else {
    fmt::print(
        "bench_embedding_cache "
        "dedup|gather|update|hits|memory|resident|prepare|cold|train|commit|bulk|clean "
        "[DIRECTORY]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace mstrain::embedding_cache

int main(int argc, char** argv) {
  try {
    return mstrain::embedding_cache::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
