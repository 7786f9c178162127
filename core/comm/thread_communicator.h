// Ranks that are threads of one process: for tests, and for whoever wants several ranks without a launcher.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/communicator.h"

namespace mstrain {

struct ThreadRanksOptions {
  double timeout_seconds = 30;  // in which the process ran, before a wait gives up
};

// One communicator for each of `ranks` threads. Whoever comes last to a collective does its work. A rank whose communicator
// is destroyed is gone: whoever waits for it is told at once.
std::vector<std::unique_ptr<Communicator>> thread_communicators(
    int ranks, const ThreadRanksOptions& options = {});

}  // namespace mstrain
