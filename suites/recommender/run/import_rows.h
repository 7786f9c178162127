// Rows that a run begins with: those of an export or of another run's checkpoint, by the names of their fields.
#pragma once

#include "suites/recommender/embedding/rows.h"

namespace mstrain::recommender {

// Gives every row of `path` (what `mstrain export` wrote, a checkpoint, or a run) to `sink`, with the keys that `tables` have for its field;
// fields that only `tables` have are told of. Weights alone: what optimizers kept is left behind. Memory is a few thousand rows.
// Throws IoError where there are no rows, or no field of theirs is looked up here in the same way: another vector or number of ids.
void read_rows(FileSystem& files, const std::string& path, const Tables& tables,
               const RowSink& sink);

// How many that would be; 0 where there are none, of which read_rows() tells.
uint64_t count_rows(FileSystem& files, const std::string& path);

}  // namespace mstrain::recommender
