// Batches of samples with the rows that they look up. They are read, and their rows fetched, ahead of the step that learns from them; what
// a batch is given are the rows as all steps before it left them.
#pragma once

#include <memory>

#include "core/data/batch_part.h"
#include "core/train/task.h"
#include "suites/recommender/embedding/rows.h"
#include "suites/recommender/embedding/tables.h"

namespace mstrain::recommender {

// What batches are made of. All must outlive the batches.
struct BatchSource {
  std::shared_ptr<const SampleSource> samples;
  std::shared_ptr<const Tables> tables;
  std::shared_ptr<Rows> rows;
};

// How training passes through samples: each epoch in an order of its own, a function of seed and epoch alone.
struct SampleOrder {
  bool shuffle = true;
  int64_t block =
      0;  // samples that stay together: blocks are shuffled, and samples within theirs; 0: all samples at once
};

// Sample `at` of an endless sequence of passes.
int64_t sample_at(const SampleOrder& order, int64_t samples, uint64_t seed, int64_t at);

// Training, from sample `first` of the sequence on.
std::unique_ptr<BatchStream> training_batches(const BatchSource& source, const SampleOrder& order,
                                              uint64_t seed, const BatchPart& part, int64_t first);
// The first `samples` in their order, with labels -1 behind them. Learns nothing.
std::unique_ptr<BatchStream> reading_batches(const BatchSource& source, const BatchPart& part,
                                             int64_t samples);

}  // namespace mstrain::recommender
