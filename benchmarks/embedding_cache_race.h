// What the sections of bench_embedding_cache share: the workload, timing, and verdicts against a bar.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "embedding_cache/cache.h"

namespace mstrain::embedding_cache {

constexpr uint64_t kVocabulary = 5'860'000;
constexpr uint64_t kSamples = 16'000;
constexpr uint64_t kSeed = 1;

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F>
double seconds(F&& body) {
  const double start = now();
  body();
  return now() - start;
}

double median(std::vector<double> values);
void verdict(const char* name, double value, const char* unit, double bar, bool at_least);

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

// Hot ids are not neighbours.
Id scatter(uint64_t rank);
// Ids of some batches: 26 fields of Zipf 1.05 over the vocabulary and, where asked for, 13 fixed ones, sample by sample.
std::vector<std::vector<Id>> make_batches(size_t count, bool fixed_fields);

Segment adam_segment(uint32_t width);
// 80 weights and moments, a wide weight with FTRL: 980 bytes.
TableOptions wide_deep_table(uint64_t host_rows);
// One such table in RocksDB, direct I/O, 16 readers, two threads.
Options disk_options(const std::string& directory, uint64_t host_rows);

// The sections.
void bench_dedup();
void bench_gather();
void bench_update();
void bench_bags();
void bench_hits();
void bench_memory();
void bench_resident();
void bench_prepare(const std::string& directory);
void bench_cold(const std::string& directory);
void bench_train(const std::string& directory);
void bench_commit(const std::string& directory);
void bench_bulk(const std::string& directory);

}  // namespace mstrain::embedding_cache
