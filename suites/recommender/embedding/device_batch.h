// What a step on a device needs of a batch's ids in one table, beside the rows themselves: made where the batch is read.
#pragma once

#include "embedding_cache/dedup.h"
#include "suites/recommender/embedding/tables.h"

namespace mstrain::recommender {

// Of positions 0 to P - 1, as TableKeys has them. What a distinct id learns are sums of parts, a part being what its positions of one micro-batch
// learn, each added up in order.
struct DeviceBatch {
  embedding_cache::Batch distinct;
  std::vector<int32_t> order;    // positions, id by id, ascending
  std::vector<int32_t> vectors;  // the bag of each of these, of the vectors; empty: `order`
  std::vector<int32_t> weights;  // likewise, of single weights
  std::vector<float> scales;     // likewise, what its row is multiplied by; empty: 1
  bool scales_vectors = true;    // or single weights alone
  std::vector<int32_t> parts;    // where each part begins in `order`, and the end
  std::vector<int32_t> ids;      // where each id begins in `parts`, and the end; empty: it has one
};

// Of the positions of a rank's part that is computed in so many micro-batches.
DeviceBatch device_batch(const TableSpec& table, const TableKeys& keys, int64_t micro_batches);
// Of ids whose gradients come by position.
DeviceBatch device_batch(const std::vector<embedding_cache::Id>& ids);

}  // namespace mstrain::recommender
