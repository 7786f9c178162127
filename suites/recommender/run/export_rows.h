// The rows of a checkpoint as NumPy reads them, whatever number of ranks had them.
#pragma once

#include "core/base/json.h"
#include "core/io/folder.h"
#include "suites/recommender/embedding/rows.h"
#include "suites/run/stored_model.h"

namespace mstrain::recommender {

inline constexpr const char* kRowsFile = "rows.json";

// {"tables": [{"name", "columns": {"vector": [first, end], "weight": [first, end]}, "fields": [{"name", "index", "keys": [first, end] or
// "hashed"}]}], "numeric": [names]}: what rows of these tables consist of, and whose they are. Checkpoints and exports hold it as rows.json.
OrderedJson description_of(const Tables& tables);
// Of such a file. Throws IoError for what is no JSON.
Json read_description(FileSystem& files, const std::string& path);

// An earlier checkpoint of the same run: rows that have learned nothing since are left out.
struct Since {
  int64_t step = 0;
  RowsId id;
};
// Of each table T: rows.T.keys.npy, i64 [n], ascending as unsigned numbers, and rows.T.npy, f32 [n, width], the weights of each; with
// `since` also rows.T.gone.npy, the keys that had a row then and have none now; and rows.json, with "rows" and "first_values" of each table, "seed", "step", "since" and what
// `besides` holds.
// `saved`: after open_to_read(), at `step`. Rows pass through: memory is a few blocks of each rank's. Throws IoError.
void write_rows(FileSystem& files, AtomicFolder& folder, const Rows& saved, const Tables& tables,
                int64_t step = 0, const std::optional<Since>& since = {},
                const OrderedJson& besides = OrderedJson::object());

// Those of `model`; nothing where it is no checkpoint of a run. The data of the run must be there, for they name the fields.
void export_rows(FileSystem& files, const StoredModel& model, AtomicFolder& folder,
                 const ExportOptions& how);

}  // namespace mstrain::recommender
