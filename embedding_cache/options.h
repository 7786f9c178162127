// What a cache is made of: tables, tiers, store, rules. The same structs are the section `embedding_cache` of a YAML file.
//
//   Options options;
//   options.directory = "run/rows";
//   options.tables = {{.name = "ads", .host_rows = 100'000, .segments = {{.width = 16}}}};
//   Options same = parse_options("directory: run/rows\ntables: [{name: ads, host_rows: 100000, segments: [{width: 16}]}]", "-");
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/base/files.h"

namespace mstrain::embedding_cache {

using Id = uint64_t;        // any value
using CommitId = uint64_t;  // from 1; 0 means none

enum class OptimizerKind : uint8_t { kSgd, kAdagrad, kRowwiseAdagrad, kFtrl, kLazyAdam };
enum class InitKind : uint8_t { kZero, kConstant, kUniform, kNormal };
enum class Policy : uint8_t { kLru, kLfu, kLookAhead };
enum class AdmissionKind : uint8_t { kNone, kCount, kProbability, kBloom };
enum class Score : uint8_t { kLru, kLfu };
enum class Untrained : uint8_t { kAsInTraining, kZeros };
enum class L2Of : uint8_t { kBatch, kTable };
enum class StoreKind : uint8_t { kAuto, kMemory, kRocksdb };

// How a segment learns. Only what the kind names is used; the update types of update.h are made from it.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  float lr = 0.01F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float eps = 1e-8F;
  float l1 = 0;
  float l2 = 0;
  // Which rows learn at a step: those of its batch, or all of the table, the others as if by gradients of zero. These go through the steps
  // that they missed when they are read, with the same bits; a step of a row that is read costs what learning it would.
  L2Of l2_of = L2Of::kBatch;
  float initial_accumulator = 0;  // of Adagrad, row-wise Adagrad and FTRL

  bool learns_always() const { return l2_of == L2Of::kTable; }

  template <class V>
  void fields(V& v) {
    v("kind", kind, "update rule",
      rule::one_of({"sgd", "adagrad", "rowwise_adagrad", "ftrl", "lazy_adam"}));
    v("lr", lr, "learning rate; schedules do not change FTRL's", rule::positive());
    v("beta1", beta1, "decay of the first moment", rule::at_least(0).below(1));
    v("beta2", beta2, "decay of the second moment", rule::at_least(0).below(1));
    v("eps", eps, "added to the root", rule::at_least(1e-30));
    v("l1", l1, "FTRL: weight of the absolute values", rule::at_least(0));
    v("l2", l2, "weight of the squares of the rows of l2_of", rule::at_least(0));
    v("l2_of", l2_of, "rows that learn at a step: those of its batch, or all of the table",
      rule::one_of({"batch", "table"}));
    v("initial_accumulator", initial_accumulator, "first sum of squares", rule::at_least(0));
  }
};

// Weights of a new row: a pure function of (seed, table's name, id), so that nothing else can change it.
struct InitOptions {
  InitKind kind = InitKind::kNormal;
  float scale =
      0.01F;  // the constant, half the width of the uniform range, or the standard deviation

  template <class V>
  void fields(V& v) {
    v("kind", kind, "distribution of new weights",
      rule::one_of({"zero", "constant", "uniform", "normal"}));
    v("scale", scale, "constant, half range or standard deviation");
  }
};

// Consecutive weights of a row that share an optimizer: a row may hold a deep vector and a wide weight.
struct Segment {
  uint32_t width = 0;
  OptimizerOptions optimizer;
  InitOptions init;

  template <class V>
  void fields(V& v) {
    v("width", width, "floats", rule::at_least(1).at_most(65536).required());
    v("optimizer", optimizer, "how it learns");
    v("init", init, "first values");
  }
};

// Which ids get a row. One that has none reads as zeros, and its gradients are dropped.
struct AdmissionOptions {
  AdmissionKind kind = AdmissionKind::kNone;
  uint32_t count = 3;  // count, bloom: batches that an id must have been in, this one included
  double probability = 0.3;           // of each batch to admit an id that it holds
  uint64_t bloom_counters = 1 << 20;  // bytes of the counting Bloom filter
  uint64_t window_steps =
      0;  // count, bloom: batches count for so many steps, at most twice that; 0: the table's ttl_steps

  template <class V>
  void fields(V& v) {
    v("kind", kind, "rule", rule::one_of({"none", "count", "probability", "bloom"}));
    v("count", count, "batches with the id", rule::at_least(1).at_most(255));
    v("probability", probability, "chance per batch", rule::at_least(0).at_most(1));
    v("bloom_counters", bloom_counters, "counters, a byte each", rule::at_least(64).at_most(1e12));
    v("window_steps", window_steps, "steps for which a batch counts; 0: ttl_steps of the table");
  }
};

// What Cache::evict removes: rows that no update has touched for `ttl_steps` steps, oldest first, down to the floor; then, of more than
// `max_rows` that are left, those of the lowest score. Equals go by id.
struct EvictionOptions {
  uint64_t ttl_steps = 0;  // 0: rows live for ever
  uint64_t min_keep_rows = 0;
  uint64_t max_rows = 0;  // 0: any number
  // lru: the step of the last update; lfu: the number of updates, and of equal ones that step.
  Score score = Score::kLru;

  template <class V>
  void fields(V& v) {
    v("ttl_steps", ttl_steps, "steps without an update; 0: for ever");
    v("min_keep_rows", min_keep_rows, "rows that stay whatever their age");
    v("max_rows", max_rows, "rows that stay when others are forgotten; 0: any number");
    v("score", score, "of more than max_rows those go that learned longest ago, or least often",
      rule::one_of({"lru", "lfu"}));
  }
};

struct TableOptions {
  std::string name;
  uint64_t host_rows = 0;  // rows that host memory holds; every row of all open tickets must fit
  std::string host_rows_key =
      "embedding_cache: host_rows";  // how errors begin: the file, line and key that say it
  std::vector<Segment> segments;
  Policy policy = Policy::kLookAhead;
  AdmissionOptions admission;
  EvictionOptions eviction;
  // What a Reader gives for an id without a row: what training sees (its first value, or zeros where admission turns new ids away), or zeros.
  Untrained untrained = Untrained::kAsInTraining;

  template <class V>
  void fields(V& v) {
    v("name", name, "unique name", rule::required());
    v("host_rows", host_rows, "rows in host memory",
      rule::at_least(1).at_most(1U << 31).required());
    v("segments", segments, "what a row consists of", rule::required());
    v("policy", policy, "which row leaves host memory",
      rule::one_of({"lru", "lfu", "lookahead_lru"}));
    v("admission", admission, "which ids get a row");
    v("eviction", eviction, "which rows are forgotten");
    v("untrained", untrained, "what a reader gives for ids without a row",
      rule::one_of({"as_in_training", "zeros"}));
  }
};

inline constexpr int kMostReadThreads = 256;

struct StoreOptions {
  StoreKind kind =
      StoreKind::kAuto;    // auto: RocksDB where it was built in and a directory is given
  int read_threads = 16;   // parallel reads; each is one MultiGet over sorted keys
  bool direct_io = false;  // past the page cache
  uint32_t block_kib = 4;
  int bloom_bits = 10;
  uint32_t write_back_rows = 8192;  // evicted rows that go to the store in one sorted batch
  uint32_t write_back_mib = 256;    // of rows on their way out before prefetch waits for the store

  template <class V>
  void fields(V& v) {
    v("kind", kind, "where rows live that host memory does not hold",
      rule::one_of({"auto", "memory", "rocksdb"}));
    v("read_threads", read_threads, "reads in flight", rule::at_least(1).at_most(kMostReadThreads));
    v("direct_io", direct_io, "reads and writes past the page cache");
    v("block_kib", block_kib, "size of a block", rule::at_least(1).at_most(1024));
    v("bloom_bits", bloom_bits, "filter bits a row", rule::at_least(0).at_most(32));
    v("write_back_rows", write_back_rows, "rows of a batch written back", rule::at_least(1));
    v("write_back_mib", write_back_mib, "rows on their way out before prefetch waits",
      rule::at_least(1));
  }
};

struct Options {
  std::string directory;  // empty: nothing outlives the process, commits are errors
  uint64_t seed = 1;
  std::vector<TableOptions> tables;
  StoreOptions store;
  int threads = 1;                 // that gather, update and write; the caller is one of them
  uint32_t bounded_staleness = 0;  // updates of earlier steps that a gather may miss; 0: exact
  bool check_shadow = false;       // compare every gather with a flat table in memory; slow
  double wait_seconds = 120;       // in which the store gets nowhere, and a wait is an error
  int keep = 3;                    // newest commits that are kept
  FileSystem* files = nullptr;     // null: real_files(), where RocksDB takes its own, faster ways

  template <class V>
  void fields(V& v) {
    v("directory", directory, "where rows and commits lie");
    v("seed", seed, "of first values and chances");
    v("tables", tables, "tables", rule::required());
    v("store", store, "the last tier");
    v("threads", threads, "threads that gather and update", rule::at_least(1).at_most(1024));
    v("bounded_staleness", bounded_staleness, "updates that a gather may miss; 0: exact");
    v("check_shadow", check_shadow, "compare every gather with a flat table");
    v("wait_seconds", wait_seconds, "longest wait for a store that gets nowhere", rule::positive());
    v("keep", keep, "commits kept", rule::at_least(1));
  }
};

// From YAML text: the options themselves, or a map with the one key `embedding_cache`. Throws ConfigError.
Options parse_options(std::string_view yaml, const std::string& file);
std::string print_options(const Options& options);  // every default filled in; reads back alike

// Throws ConfigError for what no single key can tell: no table, equal names, no segment, a row wider than 1 MiB.
void check_options(const Options& options);

}  // namespace mstrain::embedding_cache
