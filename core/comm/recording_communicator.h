// One rank of many that are not there: what it would exchange is written down and takes as long as a model says. Nothing moves:
// results are whatever their memory holds. So one rank's step is measured, with its exchanges, on a machine of one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/mesh.h"

namespace mstrain {

struct Exchange {
  std::string operation;  // "all_reduce", "send", …
  std::string group;      // its name
  int ranks = 1;          // of the group; 2 for messages
  int64_t bytes = 0;      // of this rank's memory: the larger of what is given and what comes
  std::string what;       // as the caller names it
};

// What all groups of one rank tell. One thread at a time.
struct Recording {
  std::vector<Exchange> exchanges;  // in the order in which they begin
  // From the end of the group's exchange before, or from now, to the end of this; empty: no time at all.
  std::function<double(const Exchange&)> seconds;
};

// All ranks of `mesh`, as rank `rank` sees them. Splits by the name of an axis into the group along it; throws Error for others.
std::unique_ptr<Communicator> recording_communicator(const Mesh& mesh, int rank,
                                                     std::shared_ptr<Recording> recording);

}  // namespace mstrain
