// Work on rows in memory against the plainest loops.
#include <algorithm>
#include <cstring>

#include "benchmarks/embedding_cache_race.h"
#include "embedding_cache/dedup.h"
#include "embedding_cache/id_map.h"

namespace mstrain::embedding_cache {

namespace {

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

}  // namespace

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

// Against what there is to do without them: every position written out, and then added up.
void bench_bags() {
  constexpr size_t kEach = 4, kWidth = 64;
  const auto batches = make_batches(1, false);
  const std::vector<Id> ids(batches[0].begin(), batches[0].end() - static_cast<std::ptrdiff_t>(
                                                                       batches[0].size() % kEach));
  const size_t positions = ids.size();
  std::vector<uint32_t> offsets;
  for (size_t p = 0; p <= positions; p += kEach) {
    offsets.push_back(static_cast<uint32_t>(p));
  }
  const Bags bags{.offsets = offsets};
  Options options;
  options.store.kind = StoreKind::kMemory;
  options.tables = {{.name = "t", .host_rows = 200'000, .segments = {adam_segment(kWidth)}}};
  Cache cache = Cache::open(options);
  std::vector<float> flat(positions * kWidth), sums(positions / kEach * kWidth, 0.01F);
  fmt::print("bags of {}: {} positions a batch, {} floats\n", kEach, positions, kWidth);
  Ticket ticket = cache.prefetch(0, ids, 1, Use::kRead);
  cache.wait(ticket);
  const double gather = race(
      "gather of bags", "gather, then sums", static_cast<double>(positions), 9,
      [&] { cache.gather(ticket, bags, sums.data(), kWidth); },
      [&] {
        cache.gather(ticket, flat.data(), kWidth);
        for (size_t bag = 0; bag < positions / kEach; ++bag) {
          for (size_t k = 0; k < kWidth; ++k) {
            const float* const x = &flat[bag * kEach * kWidth + k];
            sums[bag * kWidth + k] = ((x[0] + x[kWidth]) + x[2 * kWidth]) + x[3 * kWidth];
          }
        }
      });
  cache.release(std::move(ticket));
  fmt::print("  gather of bags: {:.2f} of both\n", gather);
  uint64_t step = 0;
  const auto learn = [&](auto&& update) {
    Ticket each = cache.prefetch(0, ids, ++step);
    cache.wait(each);
    const double time = seconds([&] { update(each); });
    cache.release(std::move(each));
    return time;
  };
  std::vector<double> ratios, ours;
  for (int i = 0; i < 9; ++i) {
    const BagGradients of_bags{bags, sums.data(), kWidth};
    const double a = learn([&](Ticket& each) { cache.update(each, std::span(&of_bags, 1)); });
    const double b = learn([&](Ticket& each) {
      for (size_t p = 0; p < positions; ++p) {
        std::memcpy(&flat[p * kWidth], &sums[p / kEach * kWidth], kWidth * sizeof(float));
      }
      cache.update(each, flat);
    });
    ours.push_back(a);
    ratios.push_back(b / a);
  }
  fmt::print(
      "  update of bags: {:.1f} M positions/s, {:.2f} of gradients written out by position\n",
      static_cast<double>(positions) / median(ours) / 1e6, median(ratios));
}

}  // namespace mstrain::embedding_cache
