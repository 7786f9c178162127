// What a checkpoint says of the features that its rows and weights are of, and whether a run's samples have the same.
#pragma once

#include <string>

#include "core/base/files.h"
#include "core/base/json.h"

namespace mstrain::recommender {

// Throws IoError naming what has another place in the checkpoint of `folder` than in `here`, as description_of() gives it (export_rows.h). Earlier versions
// did not write the columns of numbers.
void expect_features_of(FileSystem& files, const std::string& folder, const OrderedJson& here);

}  // namespace mstrain::recommender
