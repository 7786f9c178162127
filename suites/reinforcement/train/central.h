// What goes between a server of parameters and its learners (distribution.policy: central).
//
// In each round every learner pushes a gradient, and the server takes a step with their mean, formed in the order of ranks. A gradient of round
// r is of the parameters after round r - s, or the first ones, where s is the bound of staleness: a learner is at most so many rounds ahead of the
// others, and nothing depends on who is fast (stale synchronous parallel, Ho et al. 2013; with s = 0 all wait for all).
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/tensor/params.h"
#include "suites/reinforcement/env/bytes.h"

namespace mstrain::reinforcement {

// All of them one after another, and back.
std::vector<float> flat_of(const Params& params);
void from_flat(std::span<const float> flat, Params& params);

// On rank 0.
class CentralServer {
 public:
  // `ranks` must outlive it.
  CentralServer(Communicator& ranks, int64_t bound) : ranks_(ranks), bound_(bound) {}
  ~CentralServer();
  CentralServer(const CentralServer&) = delete;
  CentralServer& operator=(const CentralServer&) = delete;

  // The mean of all learners' gradients of the next round, as `like` has them. Throws Error where one is staler than the bound.
  Params gather(const Params& like);
  // The parameters after that round.
  void publish(const Params& params);
  // Returns when the learners have all that was published: they settle, too.
  void settle();

  // The greatest staleness of a gradient since it was last asked for: rounds between its parameters and those that it changed.
  int64_t take_staleness() { return std::exchange(staleness_, 0); }

  void save(ByteWriter& to) const { to.put(round_); }
  void load(ByteReader& from) { round_ = from.get<int64_t>(); }

 private:
  Communicator& ranks_;
  int64_t bound_, round_ = 0, staleness_ = 0;
  struct Published {
    std::vector<float> flat;
    std::vector<Event> sent;  // to each learner
  };
  std::deque<Published> published_;
};

// On the other ranks.
class CentralLearner {
 public:
  CentralLearner(Communicator& ranks, int64_t bound) : ranks_(ranks), bound_(bound) {}
  ~CentralLearner();
  CentralLearner(const CentralLearner&) = delete;
  CentralLearner& operator=(const CentralLearner&) = delete;

  // Pushes the gradient of a round at `params`, which become those of the next round.
  void exchange(const Params& gradients, Params& params);
  // Takes in all that was published. Nothing is on its way between a server and learners that have settled.
  void settle(const Params& like);

  void save(ByteWriter& to) const;
  void load(ByteReader& from);

 private:
  std::vector<float> receive(size_t elements);

  Communicator& ranks_;
  int64_t bound_, round_ = 0;
  int64_t version_ = 0;                     // round behind which the parameters in use are
  int64_t received_ = 0;                    // versions, ever
  std::deque<std::vector<float>> waiting_;  // received ones, for later rounds
  std::deque<std::pair<std::string, Event>> sent_;
};

}  // namespace mstrain::reinforcement
