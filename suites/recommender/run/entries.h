// What recommenders add to the command: model.type wide_deep, deepfm, dlrm and dcn_v2, mstrain preprocess and mstrain score.
#pragma once

#include "suites/run/model_run.h"

namespace mstrain::recommender {

void add_recommenders();

}  // namespace mstrain::recommender
