// Where this process stands among those that were started together, as mpirun, srun and their like say in the environment.
#pragma once

namespace mstrain::launcher {

struct RankPlace {
  int rank = 0;
  int ranks = 1;
  int here = 0;        // which of those on this machine
  int ranks_here = 1;  // how many they are
};

// One of one where nothing is said.
RankPlace rank_place();

// Leaves this process, and what it becomes and starts, its share of the processors, whole cores first, unless it was given one
// already, which its parent does not have. Where there are fewer processors than ranks it leaves one.
void take_own_processors(const RankPlace& place);
// Then, when threads have been counted: ranks that are more than the processors take turns on all of them, so that none waits for one
// while another is idle.
void take_turns(const RankPlace& place);

// That the processes of one start share.
int shared_processors();

}  // namespace mstrain::launcher
