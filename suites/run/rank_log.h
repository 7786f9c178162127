// Logs of the ranks of a run.
#pragma once

#include <memory>

#include "core/comm/communicator.h"
#include "core/train/log_file.h"
#include "suites/run/run.h"

namespace mstrain {

// Ranks but the first say nothing to people: each has a log of its own, in the run's directory, as long as what it is given back lives.
// Every rank calls it; the first one is given null.
std::unique_ptr<LogFile> rank_log(const RunRequest& request, const RunConfig& config,
                                  Communicator& world);

}  // namespace mstrain
