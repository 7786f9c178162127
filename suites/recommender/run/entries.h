// model.type wide_deep, deepfm, dlrm and dcn_v2.
#pragma once

#include "suites/run/model_run.h"

namespace mstrain::recommender {

std::vector<ModelEntry> entries();

}  // namespace mstrain::recommender
