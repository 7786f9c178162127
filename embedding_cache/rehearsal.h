// Training without a model: batches and gradients are pure functions of (seed, step) and of the rows read, so that a wrong row anywhere
// changes everything after it. The kill test and the tests of exactness train this.
#pragma once

#include "embedding_cache/cache.h"

namespace mstrain::embedding_cache {

struct Rehearsal {
  uint64_t seed = 1;
  uint64_t steps = 60;
  uint64_t commit_every = 10;  // 0: never
  bool commit_behind = false;  // commits are started, and awaited when the next one is due
  uint64_t evict_every = 0;    // forget rows at such commits' steps; a multiple of commit_every
  uint32_t depth = 1;          // batches prefetched beyond the one that is learned
  uint32_t look_ahead = 0;     // batches announced beyond those
  uint64_t vocabulary = 3000;
  uint32_t positions = 200;  // ids of a batch and table

  // Two tables: "deep" with two segments and a budget, "plain" with admission and expiry. `share` of the vocabulary fits into host memory.
  Options cache_options(const std::string& directory, double share, StoreKind store) const;
  // Trains from the cache's last commit to `steps`. Throws what the cache throws.
  void run(Cache& cache) const;
};

}  // namespace mstrain::embedding_cache
