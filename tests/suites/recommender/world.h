// A run's rows and samples for tests, and something to learn.
#pragma once

#include "core/tensor/host.h"
#include "suites/recommender/embedding/batches.h"
#include "suites/recommender/embedding/placement.h"
#include "tests/embedding_cache/temp_directory.h"
#include "tests/suites/recommender/samples.h"

namespace mstrain::recommender {

inline constexpr int64_t kVector = 3;

// In a folder of the test's own.
struct World {
  World(int64_t depth, int64_t host_rows,
        embedding_cache::StoreKind store = embedding_cache::StoreKind::kMemory) {
    samples = std::make_shared<const SomeSamples>(50);
    tables = std::make_shared<const Tables>(samples->schema(),
                                            FieldUse{.width = kVector, .embeds_numeric = true});
    CacheConfig cache;
    cache.host_rows = host_rows;
    cache.store.kind = store;
    auto options = cache_options(*tables, Placement(*tables, EmbeddingWay::kAuto, 1),
                                 EmbeddingConfig(), cache, 3, 1, 1 << 30, 50);
    options.directory = directory / "rows";
    rows = std::make_shared<Rows>(real_files(), options, RowsOptions{.depth = depth}, *tables);
    rows->resume(std::nullopt);
  }
  BatchSource source() const { return {samples, tables, rows}; }

  embedding_cache::TempDirectory directory;
  std::shared_ptr<const SomeSamples> samples;
  std::shared_ptr<const Tables> tables;
  std::shared_ptr<Rows> rows;
};

// What a step that pulls looked-up values towards the labels teaches.
inline RowGradients pull(const Tensors& batch, const Tables& tables, int64_t step) {
  const std::vector<float> labels = to_vector<float>(batch[0]);
  RowGradients out{.step = step};
  for (const size_t place : tables.looked_up()) {
    std::vector<float> values = to_vector<float>(batch[place]);
    const size_t each = values.size() / labels.size();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] -= labels[i / each];
    }
    out.gradients.push_back(tensor<float>(values, batch[place].shape()));
  }
  return out;
}

}  // namespace mstrain::recommender
