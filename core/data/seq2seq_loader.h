// Batches of sources and targets, prepared ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/data/batch_queue.h"
#include "core/data/seq2seq_samples.h"

namespace mstrain {

// The parts of `rows` rows: [rows, length] each, those that their kind does not hold empty.
struct Seq2SeqBatch {
  std::vector<int32_t> source, source_segments, target, labels, target_segments;
};

// As TokenLoader: the same batches whatever the number of workers, and exact states.
class Seq2SeqLoader {
 public:
  Seq2SeqLoader(std::shared_ptr<const Seq2SeqSource> source, const LoaderOptions& options,
                LoaderState state = {});

  // Valid until the next call. Errors: see BatchQueue::next.
  const Seq2SeqBatch& next() { return slots_[static_cast<size_t>(queue_.next())]; }

  LoaderState state() const { return queue_.state(); }

 private:
  std::shared_ptr<const Seq2SeqSource> source_;
  std::vector<Seq2SeqBatch> slots_;
  BatchQueue queue_;  // last: its threads write into the slots
};

}  // namespace mstrain
