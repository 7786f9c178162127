// Hit rates of eviction policies, memory a row, rows a second of lookup and update.
#include <algorithm>
#include <cstring>

#include "benchmarks/embedding_cache_race.h"
#include "core/base/hash.h"
#include "embedding_cache/host_slots.h"
#include "embedding_cache/replay.h"

namespace mstrain::embedding_cache {

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
        "  {:>7} rows  hits per lookup: lru {:.2f}  lfu {:.2f}  look-ahead {:.2f}  optimum of "
        "who knows all {:.2f} %   per id: {:.2f} {:.2f} {:.2f} {:.2f} %\n",
        rows, 100 * lru.hits_per_lookup(), 100 * lfu.hits_per_lookup(),
        100 * ahead.hits_per_lookup(), 100 * optimum.hits_per_lookup(), 100 * lru.hits_per_id(),
        100 * lfu.hits_per_id(), 100 * ahead.hits_per_id(), 100 * optimum.hits_per_id());
    worst_lru = std::min(worst_lru, ahead.hits_per_lookup() - lru.hits_per_lookup());
    worst_optimum = std::min(worst_optimum, ahead.hits_per_id() - optimum.hits_per_id());
  }
  verdict("look-ahead minus lru, worst size", 100 * worst_lru, " points", 0, true);
  fmt::print("  look-ahead minus optimum, per id, worst size: {:.2f} points\n",
             100 * worst_optimum);
}

namespace {

uint64_t resident_bytes() {
  const std::string text = real_files().read("/proc/self/statm");
  return std::stoull(text.substr(text.find(' '))) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

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

}  // namespace mstrain::embedding_cache
