// What goes between a learner and actors that run free (distribution.policy: async_actors with a max_staleness).
//
// An actor brings a rollout, gets the newest parameters at once and acts on, while the learner learns from rollouts in the order in
// which they came. Versions of the parameters are counted by updates, each of one rollout; the staleness of a rollout is how many
// versions lie between the one that acted and the one that learns from it. The learner gives parameters to an actor only where no
// more rollouts than the bound are waiting or on their way, so that actors of equal speed keep within it; a rollout of a slower one
// that comes too late is thrown away and counted. So the learner waits for nobody but the first who is ready.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/tensor/params.h"
#include "suites/reinforcement/env/bytes.h"
#include "suites/reinforcement/train/rollout.h"

namespace mstrain::reinforcement {

// On rank 0.
class FreeLearner {
 public:
  struct Next {
    Rollout rollout;
    int actor = 0;  // its rank
    int64_t staleness = 0;
    int64_t dropped = 0;            // rollouts since the last one that was given
    std::vector<Episode> finished;  // in all of these
    double waited = 0;              // seconds
  };

  // `like`: a rollout with the sizes of an actor's. An actor that has had parameters for `timeout` seconds and brought nothing ends
  // the run with its rank's number; of seconds in which this process did not look for it few count. `ranks` must outlive it.
  FreeLearner(Communicator& ranks, Rollout like, int64_t bound, double timeout);
  ~FreeLearner();
  FreeLearner(const FreeLearner&) = delete;
  FreeLearner& operator=(const FreeLearner&) = delete;

  // The rollout to learn from; actors that may act get `params`. Throws CommError.
  Next next(const Params& params);
  // An update was taken: there is a new version.
  void learned() { ++version_; }
  // All actors come in, when they have brought what they are at, and learn that so many steps were counted meanwhile.
  void call_in(int64_t env_steps);

  // When all have come in.
  void save(ByteWriter& to) const;
  void load(ByteReader& from);

 private:
  using Clock = std::chrono::steady_clock;
  struct Brought {
    Rollout rollout;
    int actor;
    int64_t version;
  };
  struct Actor {
    bool acts = false;  // with parameters, and on its way; else it waits for some
    double silent = 0;  // seconds of it
    std::unique_ptr<int64_t> size =
        std::make_unique<int64_t>();  // of the message that it will bring
    std::unique_ptr<std::string> sent = std::make_unique<std::string>();
    Event brings, takes;
  };

  void take_in(int actor);
  void take_in_all();  // what was brought
  void give(int actor, std::string message);
  void give_out(const Params& params);
  void reassure();  // those who wait, now and then
  int64_t acting() const { return std::ssize(actors_) - std::ssize(idle_); }
  void all_are_idle();

  Communicator& ranks_;
  Rollout like_;
  int64_t bound_, version_ = 0;
  double timeout_;
  std::vector<Actor> actors_;  // by rank - 1
  std::deque<int> idle_;       // of them, who waits longest first
  Clock::time_point looked_ = Clock::now(), reassured_ = Clock::now();
  std::deque<Brought> queue_;
};

// On the other ranks.
class FreeActor {
 public:
  explicit FreeActor(Communicator& ranks) : ranks_(ranks) {}

  // Whether it may act, with `params`; else it was called in, and env_steps() were counted since it last was.
  bool may_act(Params& params);
  int64_t env_steps() const { return env_steps_; }
  void bring(const Rollout& rollout);

 private:
  Communicator& ranks_;
  int64_t version_ = 0, env_steps_ = 0;
};

}  // namespace mstrain::reinforcement
