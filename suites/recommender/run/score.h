// mstrain score: what a checkpoint predicts of the samples of a file.
#pragma once

#include "suites/run/suite.h"

namespace mstrain::recommender {

Command score_command();

}  // namespace mstrain::recommender
