// What ranks that are threads meet for: collectives of a group, and messages between two of them (thread_communicator.cc).
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"

namespace mstrain::thread_ranks {

enum class Kind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kMeet,
  kMessage
};

struct Group;

// What one rank brings to a collective.
struct Part {
  Kind kind = Kind::kMeet;
  std::string what;
  Elements in, out;
  std::vector<int64_t> counts, receives;
  Reduction reduction = Reduction::kSum;
  int number = 0;  // root of a broadcast, colour of a split
};

// One collective, or one message.
struct Meeting : Event::State {
  Meeting(std::shared_ptr<Group> group, size_t expected)
      : owner(std::move(group)), parts(expected), here(expected, false) {}

  bool done() const override;
  void wait() override;
  int64_t ended() const override;

  std::shared_ptr<Group> owner;
  std::vector<Part> parts;
  std::vector<bool> here;
  size_t missing() const {
    return static_cast<size_t>(std::count(here.begin(), here.end(), false));
  }
  bool is_done = false;
  int64_t ended_at = 0;
  std::vector<int> ranks;                    // that are expected, by part
  std::string error;                         // why there will be no result
  std::vector<std::shared_ptr<Group>> made;  // by rank: the groups of a split
};

// The ranks of a group, and what they are at. The mutex is that of all groups of a job: failures concern all.
struct Job {
  double timeout;
  std::mutex mutex;
  std::condition_variable changed;
};

struct Group {
  std::shared_ptr<Job> job;
  std::string name;
  std::vector<int> world;                                // by rank: its number in the job
  std::vector<bool> gone;                                // by rank
  std::string broken;                                    // why the group is of no more use
  std::vector<int64_t> begun;                            // by rank: collectives
  std::map<int64_t, std::shared_ptr<Meeting>> meetings;  // that somebody is missing from, by number
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Meeting>>> mail;  // from, to

  Group(std::shared_ptr<Job> of, std::string called, std::vector<int> numbers)
      : job(std::move(of)),
        name(std::move(called)),
        world(std::move(numbers)),
        gone(world.size(), false),
        begun(world.size(), 0) {}

  int size() const { return static_cast<int>(world.size()); }
  // Nobody waits for a meeting that will not be.
  void fail_meeting(Meeting& meeting, const std::string& why) {
    if (!meeting.is_done && meeting.error.empty()) {
      meeting.error = why;
      broken = broken.empty() ? why : broken;
    }
    job->changed.notify_all();
  }
};

// "all_reduce h.3.mlp of tensor"
std::string describe(const Meeting& meeting);

// What is wrong with what ranks bring; empty: nothing.
std::string mismatch(const Meeting& meeting);

// What the collective or message is, once everybody is there.
void carry_out(Meeting& meeting);
// A group for each colour.
void split(Meeting& meeting);

}  // namespace mstrain::thread_ranks
