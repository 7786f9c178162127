// mstrain score: what a checkpoint predicts of the samples of a file.
#pragma once

#include <string>

#include "suites/run/suite.h"

namespace mstrain::recommender {

Command score_command();

// A line of what it writes: the probability whose log-odds these are, in the fewest digits that read back as the same double.
std::string probability_line(double log_odds);

}  // namespace mstrain::recommender
