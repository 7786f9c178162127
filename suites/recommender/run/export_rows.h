// The rows of a checkpoint as NumPy reads them, whatever number of ranks had them.
#pragma once

#include "core/io/folder.h"
#include "suites/recommender/embedding/rows.h"
#include "suites/run/stored_model.h"

namespace mstrain::recommender {

// Of each table T: rows.T.keys.npy, i64 [n], ascending as unsigned numbers, and rows.T.npy, f32 [n, width], the weights of each; and rows.json,
// which says what columns and keys are. `saved`: after open_to_read(). Rows pass through: memory is a few blocks of each rank's. Throws IoError.
void write_rows(FileSystem& files, AtomicFolder& folder, const Rows& saved, const Tables& tables);

// Those of `model`; nothing where it is no checkpoint of a run. The data of the run must be there, for they name the fields.
void export_rows(FileSystem& files, const StoredModel& model, AtomicFolder& folder);

}  // namespace mstrain::recommender
