// This process as one rank of an MPI job.
//
// A thread, which this starts and which does nothing else, calls MPI_Init_thread, begins what others ask for, polls until it is done,
// and calls MPI_Finalize. While nobody waits it sleeps between two looks, so that kernels have the processors. Where MPI lets any
// thread call it, a thread that begins something or waits for it does so itself, one at a time, for as long as that is short.
//
// Ranks know of each other beyond what they exchange. A rank that waits long asks those that it waits for where they are; a
// process that is stopped does not answer. Ranks of one machine see at once when another process ends. The first rank that
// finds that the job cannot go on tells all; then whatever any of them waits for throws CommError with one message, which is
// told to people by one rank, the lowest that is still there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/comm/communicator.h"

namespace mstrain {

class MpiEngine;

// How a rank ended that did not come to its end in good order.
struct RankEnd {
  int status = 1;  // of the process
  std::string message;
  bool lost_ranks =
      false;  // some were dead, stopped or late: the same job may go well another time
};

class MpiProcess {
 public:
  // All are called by whichever thread calls MPI, one at a time.
  struct Hooks {
    std::function<void(const std::string& message)> tell;  // says to people why the job fails
    std::function<bool()>
        is_interrupted;               // whether this process was asked to end (Ctrl-C, SIGTERM)
    std::function<void()> interrupt;  // another one was; rank 0 is told
  };

  // Returns when MPI is initialized, for which all processes of the job are needed. Throws CommError. Once in a process.
  explicit MpiProcess(Hooks hooks);
  // Without finish() or fail(), others take this rank for gone.
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int rank() const;
  int size() const;
  // All ranks. Every wait, also that of groups split from it, lasts so many seconds at most. What a communicator is asked for after
  // finish() fails.
  std::unique_ptr<Communicator> world(double timeout_s);

  // The end of a run that went well: waits until all ranks have called it. Throws CommError.
  void finish();
  // The end of one that did not, of which the others learn. Returns whether people have been told, by this rank or another, of
  // what failed first; where nobody has told them of anything and it is for this rank to do so, `tell` does. The process is
  // then to _exit().
  bool fail(
      const RankEnd& end, const std::function<void()>& tell = [] {});
  // What failed first, here or elsewhere, and whether people have been told.
  std::optional<RankEnd> failure() const;
  bool told() const;

 private:
  std::shared_ptr<MpiEngine> engine_;
};

}  // namespace mstrain
