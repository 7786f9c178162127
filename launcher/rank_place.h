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
// already, which its parent does not have. Where there are fewer processors than ranks, they take turns.
void take_own_processors(const RankPlace& place);

// That the calling process may use; and that those of one start share.
int processors_here();
int shared_processors();

}  // namespace mstrain::launcher
