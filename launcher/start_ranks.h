// mstrain --ranks N: as many processes of this machine, started by Open MPI's mpirun, watched to their end.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace mstrain::launcher {

struct RanksToStart {
  int ranks = 2;
  int restarts = 0;                    // how often the job may begin again where it lost ranks
  double timeout_s = 30;               // for which ranks may wait for one
  std::vector<std::string> arguments;  // of each rank: the command's own
  // Whether the run can be shared by so many ranks.
  std::function<bool(int ranks)> fits;
};

// Returns the exit status of the job: that of rank 0, or of a rank that failed where rank 0 did not. What ranks had to say is
// on the terminal; this says what they could not. No process is left behind. `stop`: the job is asked to end, by its rank 0.
// Throws Error where mpirun is not there, or did not start the ranks.
int start_ranks(const RanksToStart& job, const std::atomic<bool>& stop);

}  // namespace mstrain::launcher
