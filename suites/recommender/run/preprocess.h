// mstrain preprocess.
#pragma once

#include "suites/run/suite.h"

namespace mstrain::recommender {

Command preprocess_command();

}  // namespace mstrain::recommender
