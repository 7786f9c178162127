// This process as one of a job's ranks: from its start, by `mstrain --ranks`, mpirun or srun, to its end. Of one rank alone
// nothing of it costs anything.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "core/comm/mpi_process.h"
#include "launcher/rank_link.h"
#include "launcher/rank_place.h"

namespace mstrain::launcher {

class Rank {
 public:
  // Takes over the terminal where there is one to take, and sees to it that ranks but the first say nothing there but errors,
  // each with its rank.
  Rank(const RankPlace& place, const std::atomic<bool>& stop);
  ~Rank();

  bool is_alone() const { return place_.ranks == 1; }
  bool is_first() const { return place_.rank == 0; }
  int ranks() const { return place_.ranks; }
  const RankPlace& place() const { return place_; }
  bool was_started_here() const { return link_ != nullptr; }
  // What an earlier run had written is removed: who started this process need not ask for it again.
  void cleared() const {
    if (link_ != nullptr) {
      link_->cleared();
    }
  }

  // Meets the others. Before, what fails fails on all of them in the same way, and the first one says it. Throws Error.
  void join();
  std::unique_ptr<Communicator> world(double timeout_s) { return mpi_->world(timeout_s); }

  // The end of this process; both return its exit status. Where this one is not alone, leave() does not return but ends the
  // process, as others may have left it amid an exchange.
  int finish(int status);
  int leave(const RankEnd& end, bool is_of_others);

 private:
  RankPlace place_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<RankLink> link_;
  std::unique_ptr<MpiProcess> mpi_;
};

}  // namespace mstrain::launcher
