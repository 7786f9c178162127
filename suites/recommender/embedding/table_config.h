// The sections `embedding` and `embedding_cache` of a recommender's configuration: how rows begin and learn, and where they live. Which
// tables there are follows from the fields of the data and from the model.
#pragma once

#include "embedding_cache/options.h"

namespace mstrain::recommender {

// How rows begin and learn.
struct EmbeddingConfig {
  embedding_cache::OptimizerOptions optimizer{.kind = embedding_cache::OptimizerKind::kLazyAdam,
                                              .lr = 1e-3F};
  embedding_cache::OptimizerOptions wide_optimizer{.kind = embedding_cache::OptimizerKind::kFtrl,
                                                   .lr = 0.05F,
                                                   .l1 = 1e-8F,
                                                   .l2 = 1e-8F,
                                                   .initial_accumulator = 1.0F};
  embedding_cache::InitOptions init;
  embedding_cache::InitOptions wide_init{.kind = embedding_cache::InitKind::kZero};
  embedding_cache::AdmissionOptions admission;
  embedding_cache::EvictionOptions eviction;
  int64_t evict_every = 1000;

  bool forgets() const { return eviction.ttl_steps > 0 || eviction.max_rows > 0; }

  template <class V>
  void fields(V& v) {
    v("optimizer", optimizer, "how the vectors of ids learn; rates follow the schedule");
    v("wide_optimizer", wide_optimizer, "how the single weights of ids learn");
    v("init", init, "first values of vectors");
    v("wide_init", wide_init, "first values of single weights");
    v("admission", admission, "which ids get a row");
    v("eviction", eviction, "which rows are forgotten");
    v("evict_every", evict_every, "steps between two looks for rows to forget", rule::at_least(1));
  }
};

struct PipelineConfig {
  int64_t depth = 2;

  template <class V>
  void fields(V& v) {
    v("depth", depth, "batches whose rows are fetched ahead; 0: none",
      rule::at_least(0).at_most(64));
  }
};

// Where rows live. Nothing here changes a result.
struct CacheConfig {
  AutoOr<std::string> directory;
  AutoOr<int64_t> host_rows;
  AutoOr<int64_t> device_rows = 0;
  embedding_cache::Policy policy = embedding_cache::Policy::kLookAhead;
  embedding_cache::StoreOptions store;
  PipelineConfig pipeline;
  bool check_shadow = false;
  double wait_seconds = 120;

  template <class V>
  void fields(V& v) {
    v("directory", directory, "where rows and their commits lie; auto: rows, in run.output_dir",
      rule::path());
    v("host_rows", host_rows,
      "rows of each table in host memory; auto: all that the data can have, within half of the "
      "memory",
      rule::at_least(1).at_most(1U << 31));
    v("device_rows", device_rows,
      "rows of each table in the memory of the card that trains, at least the distinct ones of a "
      "batch; 0: none; auto: all that the data can have, within a quarter of that memory",
      rule::at_least(0).at_most((1U << 31) - 4));
    v("policy", policy, "which row leaves host memory",
      rule::one_of({"lru", "lfu", "lookahead_lru"}));
    v("store", store, "the last tier");
    v("pipeline", pipeline, "fetching ahead");
    v("check_shadow", check_shadow, "compare every gather with a flat table; slow");
    v("wait_seconds", wait_seconds, "longest wait for a store that gets nowhere", rule::positive());
  }
};

}  // namespace mstrain::recommender
