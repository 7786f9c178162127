// What a rank's part of a batch asks of the ranks that have its rows.
#pragma once

#include <vector>

#include "embedding_cache/dedup.h"
#include "suites/recommender/embedding/placement.h"
#include "suites/recommender/embedding/pooled_bags.h"

namespace mstrain::recommender {

// Of one table.
struct RowRequest {
  // Distinct ids of each micro-batch: by owner, for each in the order of micro-batches; `inverse` by position of the part.
  embedding_cache::Batch batch;
  std::vector<int64_t> counts;  // of ids, [owners, micro-batches of the part]
  size_t samples = 0;
  std::vector<FieldBags> bags;  // of each of Placement::wholes
};
// `table` is of `spec`; its vectors are of `width` floats.
RowRequest request_of(const Placement& placement, size_t table, const TableSpec& spec, size_t width,
                      const TableKeys& keys, int64_t micro_batches);

}  // namespace mstrain::recommender
