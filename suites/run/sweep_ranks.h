// A sweep whose runs many ranks share. Rank 0 decides which run is next, and how far it goes, from what it reads in their directories; the
// others do as they are told, so that all make the same choices.
#pragma once

#include <functional>
#include <memory>

#include "core/comm/mesh.h"
#include "core/train/run_directory.h"
#include "core/train/session.h"

namespace mstrain {

class SweepRanks {
 public:
  // Trains a trial, by its number, on this rank; `restart`: anew. Every rank is at work in the same one.
  using Train = std::function<Outcome(size_t trial, int64_t until, bool restart)>;

  // `ranks` null: there is one. Every rank makes one.
  SweepRanks(Ranks* ranks, Train train);

  // On rank 0: trains on all ranks. Throws what this rank's training threw, Error where another's did, and CommError where ranks are gone,
  // or no longer at the same point: then the sweep cannot go on.
  Outcome train(size_t trial, int64_t until, bool restart);
  // On rank 0: what it does between two runs, for which the others wait however long it takes.
  void aside(const std::function<void()>& work);
  // On rank 0, once: there is no more.
  void end(Outcome outcome);

  // On the others: until rank 0 ends it.
  Outcome follow();

 private:
  Outcome train_here(size_t trial, int64_t until, bool restart);

  Ranks* ranks_;
  Train train_;
  // A group of its own: a rank whose run failed never meets others here that still are in theirs.
  std::unique_ptr<Communicator> between_runs_;
};

}  // namespace mstrain
