// What the trainer needs to know of a T5 and its samples.
#pragma once

#include "core/data/seq2seq_samples.h"
#include "core/train/task.h"
#include "suites/run/network.h"
#include "suites/transformer/t5/model.h"

namespace mstrain::t5 {

struct BatchShape {
  Rows rows = Rows::kFull;
  int64_t source_length = 0, target_length = 0;
};

// Batches are i32 {source[rows, source_length], target, labels[rows, target_length]}; padded ones have source_segments besides,
// and packed ones source_segments and target_segments.
TrainTask make_task(const T5& model, const Network& network, const BatchShape& shape);

std::unique_ptr<BatchStream> batches_of(std::shared_ptr<const Seq2SeqSource> source,
                                        const BatchPart& part, int64_t first);

}  // namespace mstrain::t5
