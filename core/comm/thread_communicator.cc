#include "core/comm/thread_communicator.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/base/clock.h"
#include "core/comm/thread_meeting.h"

namespace mstrain {
namespace {

using thread_ranks::carry_out;
using thread_ranks::Group;
using thread_ranks::Job;
using thread_ranks::Kind;
using thread_ranks::Meeting;
using thread_ranks::Part;

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  ~ThreadCommunicator() override {
    const std::lock_guard lock(group_->job->mutex);
    group_->gone[static_cast<size_t>(rank_)] = true;
    for (const auto& [number, meeting] : group_->meetings) {
      fail_if_awaited(*meeting);
    }
    for (const auto& [way, queue] : group_->mail) {
      for (const auto& message : queue) {
        fail_if_awaited(*message);
      }
    }
    if (std::count(group_->gone.begin(), group_->gone.end(), false) == 0) {
      group_->meetings.clear();  // what failed, and holds the group
      group_->mail.clear();
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string_view name() const override { return group_->name; }

  Event all_reduce(Elements in, Elements out, Reduction reduction, std::string_view what) override {
    return come({.kind = Kind::kAllReduce,
                 .what = std::string(what),
                 .in = in,
                 .out = out,
                 .reduction = reduction});
  }
  Event reduce_scatter(Elements in, Elements out, std::span<const int64_t> counts,
                       Reduction reduction, std::string_view what) override {
    return come({.kind = Kind::kReduceScatter,
                 .what = std::string(what),
                 .in = in,
                 .out = out,
                 .counts = {counts.begin(), counts.end()},
                 .reduction = reduction});
  }
  Event all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                   std::string_view what) override {
    return come({.kind = Kind::kAllGather,
                 .what = std::string(what),
                 .in = in,
                 .out = out,
                 .counts = {counts.begin(), counts.end()}});
  }
  Event all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                   std::span<const int64_t> receives, std::string_view what) override {
    return come({.kind = Kind::kAllToAll,
                 .what = std::string(what),
                 .in = in,
                 .out = out,
                 .counts = {sends.begin(), sends.end()},
                 .receives = {receives.begin(), receives.end()}});
  }
  Event broadcast(Elements inout, int root, std::string_view what) override {
    return come({.kind = Kind::kBroadcast,
                 .what = std::string(what),
                 .in = inout,
                 .out = inout,
                 .number = root});
  }
  Event send(Elements in, int peer, std::string_view what) override {
    return post(rank_, peer, 0, {.kind = Kind::kMessage, .what = std::string(what), .in = in});
  }
  Event receive(Elements out, int peer, std::string_view what) override {
    return post(peer, rank_, 1, {.kind = Kind::kMessage, .what = std::string(what), .out = out});
  }
  void barrier(std::string_view what) override {
    come({.kind = Kind::kMeet, .what = std::string(what)}).wait();
  }

  std::unique_ptr<Communicator> split(int colour, std::string name) override {
    const std::shared_ptr<Meeting> meeting =
        meet({.kind = Kind::kMeet, .what = std::move(name), .number = colour}, thread_ranks::split);
    meeting->wait();
    const std::shared_ptr<Group>& group = meeting->made[static_cast<size_t>(rank_)];
    const int mine = group_->world[static_cast<size_t>(rank_)];
    const auto place = std::find(group->world.begin(), group->world.end(), mine);
    return std::make_unique<ThreadCommunicator>(group,
                                                static_cast<int>(place - group->world.begin()));
  }

 private:
  Event come(Part part) { return Event(meet(std::move(part), carry_out)); }

  std::shared_ptr<Meeting> meet(Part part, void (*work)(Meeting&)) {
    std::unique_lock lock(group_->job->mutex);
    const int64_t number = group_->begun[static_cast<size_t>(rank_)]++;
    std::shared_ptr<Meeting>& place = group_->meetings[number];
    if (place == nullptr) {
      place = std::make_shared<Meeting>(group_, group_->world.size());
      for (int r = 0; r < group_->size(); ++r) {
        place->ranks.push_back(r);
      }
    }
    const std::shared_ptr<Meeting> meeting = place;
    arrive(*meeting, static_cast<size_t>(rank_), std::move(part));
    if (meeting->missing() == 0) {
      group_->meetings.erase(number);
      finish(*meeting, lock, mismatch(*meeting), work);
    }
    return meeting;
  }

  // The k-th message that is sent on a way is the k-th that is received. `side`: 0 sends, 1 receives.
  Event post(int from, int to, size_t side, Part part) {
    std::unique_lock lock(group_->job->mutex);
    auto& queue = group_->mail[{from, to}];
    auto open = std::find_if(queue.begin(), queue.end(),
                             [&](const auto& message) { return !message->here[side]; });
    if (open == queue.end()) {
      queue.push_back(std::make_shared<Meeting>(group_, 2));
      queue.back()->ranks = {from, to};
      open = std::prev(queue.end());
    }
    const std::shared_ptr<Meeting> message = *open;
    arrive(*message, side, std::move(part));
    if (message->missing() == 0) {
      queue.erase(open);
      const Elements& sent = message->parts[0].in;
      const Elements& room = message->parts[1].out;
      const bool fits = sent.count == room.count && sent.dtype == room.dtype;
      finish(*message, lock,
             fits ? ""
                  : fmt::format("rank {} sends {} {}, rank {} receives {} {}, in {}", from,
                                sent.count, name_of(sent.dtype), to, room.count,
                                name_of(room.dtype), describe(*message)),
             carry_out);
    }
    return Event(message);
  }

  void arrive(Meeting& meeting, size_t place, Part part) {
    meeting.parts[place] = std::move(part);
    meeting.here[place] = true;
    if (!group_->broken.empty()) {
      group_->fail_meeting(meeting, group_->broken);
    }
    fail_if_awaited(meeting);
  }

  // Whoever is gone will not come.
  void fail_if_awaited(Meeting& meeting) {
    for (size_t i = 0; i < meeting.here.size(); ++i) {
      const auto rank = static_cast<size_t>(meeting.ranks[i]);
      if (!meeting.here[i] && group_->gone[rank] && meeting.missing() < meeting.here.size()) {
        group_->fail_meeting(meeting, fmt::format("rank {} is gone, and does not come to {}",
                                                  group_->world[rank], describe(meeting)));
      }
    }
  }

  // All parts stay as they are until this is done: the work needs no lock.
  void finish(Meeting& meeting, std::unique_lock<std::mutex>& lock, const std::string& wrong,
              void (*work)(Meeting&)) {
    if (!wrong.empty()) {
      group_->fail_meeting(meeting, wrong);
    }
    if (!meeting.error.empty()) {
      return;
    }
    lock.unlock();
    std::string problem;
    try {
      work(meeting);
    } catch (
        const std::exception& error) {  // types that are not added up, memory that is not there
      problem = error.what();
    }
    lock.lock();
    if (!problem.empty()) {
      group_->fail_meeting(meeting, problem);
    }
    meeting.is_done = true;
    meeting.ended_at = nanoseconds_now();
    group_->job->changed.notify_all();
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> thread_communicators(int ranks,
                                                                const ThreadRanksOptions& options) {
  check(ranks >= 1, "{} ranks", ranks);
  const auto job = std::make_shared<Job>();
  job->timeout = options.timeout_seconds;
  std::vector<int> world;
  for (int r = 0; r < ranks; ++r) {
    world.push_back(r);
  }
  const auto group = std::make_shared<Group>(job, "all ranks", world);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < ranks; ++r) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, r));
  }
  return communicators;
}

}  // namespace mstrain
