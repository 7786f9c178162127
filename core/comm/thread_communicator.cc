#include "core/comm/thread_communicator.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/clock.h"
#include "core/base/wait.h"
#include "core/comm/sums.h"

namespace mstrain {
namespace {

enum class Kind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kMeet,
  kMessage
};
constexpr std::string_view kKinds[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                       "broadcast",  "barrier",        "message"};

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

std::string_view called(const Part& part) {
  return part.what.empty() ? kKinds[static_cast<size_t>(part.kind)] : part.what;
}

// "all_reduce h.3.mlp of tensor"
std::string describe(const Meeting& meeting) {
  const auto first = std::find(meeting.here.begin(), meeting.here.end(), true);
  return fmt::format("{} of {}",
                     called(meeting.parts[static_cast<size_t>(first - meeting.here.begin())]),
                     meeting.owner->name);
}

// "rank 2 has", "ranks 1, 3 have"
std::string missing_ranks(const Meeting& meeting) {
  std::vector<int> ranks;
  for (size_t i = 0; i < meeting.here.size(); ++i) {
    if (!meeting.here[i]) {
      ranks.push_back(meeting.owner->world[static_cast<size_t>(meeting.ranks[i])]);
    }
  }
  return fmt::format("rank{} {} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? "has" : "have");
}

bool Meeting::done() const {
  const std::lock_guard lock(owner->job->mutex);
  return is_done || !error.empty();
}

int64_t Meeting::ended() const {
  const std::lock_guard lock(owner->job->mutex);
  return ended_at;
}

void Meeting::wait() {
  std::unique_lock lock(owner->job->mutex);
  const auto ended = [&] { return is_done || !error.empty(); };
  if (!wait_with_deadline(owner->job->changed, lock, owner->job->timeout,
                          [&] { return ended() || missing() == 0; })) {
    owner->fail_meeting(*this, fmt::format("{} not come to {} within {:g} s", missing_ranks(*this),
                                           describe(*this), owner->job->timeout));
  }
  owner->job->changed.wait(lock, ended);  // whoever came last is at work on this rank's memory
  if (!error.empty()) {
    throw CommError(error);
  }
}

std::byte* at(const Elements& elements, int64_t first) {
  return static_cast<std::byte*>(elements.data) + first * size_of(elements.dtype);
}

void move_elements(const Elements& to, int64_t first_to, const Elements& from, int64_t first_from,
                   int64_t count) {
  if (count > 0) {
    std::memmove(at(to, first_to), at(from, first_from),
                 static_cast<size_t>(count * size_of(to.dtype)));
  }
}

int64_t before(std::span<const int64_t> counts, size_t rank) {
  int64_t sum = 0;
  for (size_t i = 0; i < rank; ++i) {
    sum += counts[i];
  }
  return sum;
}

// What the collective is, once everybody is there.
void reduce_to(const Meeting& meeting, int64_t first, const Elements& out) {
  std::vector<const void*> pieces;
  for (const Part& part : meeting.parts) {
    pieces.push_back(at(part.in, first));
  }
  reduce_in_order(meeting.parts[0].reduction, out.dtype, pieces, {}, out);
}

void all_reduce(Meeting& meeting) {
  const Elements& first = meeting.parts[0].out;
  reduce_to(meeting, 0, first);
  for (size_t r = 1; r < meeting.parts.size(); ++r) {
    move_elements(meeting.parts[r].out, 0, first, 0, first.count);
  }
}

void reduce_scatter(Meeting& meeting) {
  // `out` may be the rank's place in another's `in`'s order only after all pieces are read: they are made aside.
  std::vector<std::vector<std::byte>> made;
  for (size_t r = 0; r < meeting.parts.size(); ++r) {
    const Part& part = meeting.parts[r];
    std::vector<std::byte> piece(static_cast<size_t>(part.out.bytes()));
    reduce_to(meeting, before(part.counts, r), {piece.data(), part.out.count, part.out.dtype});
    made.push_back(std::move(piece));
  }
  for (size_t r = 0; r < meeting.parts.size(); ++r) {
    std::copy(made[r].begin(), made[r].end(), at(meeting.parts[r].out, 0));
  }
}

void all_gather(Meeting& meeting) {
  for (const Part& to : meeting.parts) {
    for (size_t r = 0; r < meeting.parts.size(); ++r) {
      const Elements& from = meeting.parts[r].in;
      move_elements(to.out, before(to.counts, r), from, 0, from.count);
    }
  }
}

void all_to_all(Meeting& meeting) {
  for (size_t to = 0; to < meeting.parts.size(); ++to) {
    const Part& receiver = meeting.parts[to];
    for (size_t from = 0; from < meeting.parts.size(); ++from) {
      const Part& sender = meeting.parts[from];
      move_elements(receiver.out, before(receiver.receives, from), sender.in,
                    before(sender.counts, to), sender.counts[to]);
    }
  }
}

void broadcast(Meeting& meeting) {
  const Elements& from = meeting.parts[static_cast<size_t>(meeting.parts[0].number)].out;
  for (const Part& to : meeting.parts) {
    move_elements(to.out, 0, from, 0, from.count);
  }
}

// A group for each colour.
void split(Meeting& meeting) {
  std::map<int, std::vector<size_t>> members;
  for (size_t r = 0; r < meeting.parts.size(); ++r) {
    members[meeting.parts[r].number].push_back(r);
  }
  meeting.made.resize(meeting.parts.size());
  for (const auto& [colour, ranks] : members) {
    std::vector<int> world;
    for (size_t rank : ranks) {
      world.push_back(meeting.owner->world[rank]);
    }
    const auto group =
        std::make_shared<Group>(meeting.owner->job, meeting.parts[ranks[0]].what, world);
    for (size_t rank : ranks) {
      meeting.made[rank] = group;
    }
  }
}

// What is wrong with what ranks bring; empty: nothing.
std::string mismatch(const Meeting& meeting) {
  const Part& first = meeting.parts[0];
  for (size_t r = 1; r < meeting.parts.size(); ++r) {
    const Part& part = meeting.parts[r];
    if (part.kind != first.kind) {
      return fmt::format("rank {} comes to {} where rank {} comes to {}, of {}",
                         meeting.owner->world[r], called(part), meeting.owner->world[0],
                         called(first), meeting.owner->name);
    }
    const bool alike = part.in.dtype == first.in.dtype && part.reduction == first.reduction &&
                       (part.kind == Kind::kAllToAll || part.counts == first.counts) &&
                       (part.kind != Kind::kAllReduce || part.in.count == first.in.count) &&
                       (part.kind != Kind::kBroadcast ||
                        (part.out.count == first.out.count && part.number == first.number));
    if (!alike) {
      return fmt::format("ranks {} and {} come to {} of {} with other numbers of elements or types",
                         meeting.owner->world[0], meeting.owner->world[r], called(part),
                         meeting.owner->name);
    }
  }
  if (first.kind == Kind::kAllToAll) {
    for (size_t to = 0; to < meeting.parts.size(); ++to) {
      for (size_t from = 0; from < meeting.parts.size(); ++from) {
        if (meeting.parts[from].counts[to] != meeting.parts[to].receives[from]) {
          return fmt::format("rank {} sends {} elements to rank {}, which expects {}, in {} of {}",
                             meeting.owner->world[from], meeting.parts[from].counts[to],
                             meeting.owner->world[to], meeting.parts[to].receives[from], first.what,
                             meeting.owner->name);
        }
      }
    }
  }
  return "";
}

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
        meet({.kind = Kind::kMeet, .what = std::move(name), .number = colour}, mstrain::split);
    meeting->wait();
    const std::shared_ptr<Group>& group = meeting->made[static_cast<size_t>(rank_)];
    const int mine = group_->world[static_cast<size_t>(rank_)];
    const auto place = std::find(group->world.begin(), group->world.end(), mine);
    return std::make_unique<ThreadCommunicator>(group,
                                                static_cast<int>(place - group->world.begin()));
  }

 private:
  static void do_work(Meeting& meeting) {
    switch (meeting.parts[0].kind) {
      case Kind::kAllReduce: mstrain::all_reduce(meeting); break;
      case Kind::kReduceScatter: mstrain::reduce_scatter(meeting); break;
      case Kind::kAllGather: mstrain::all_gather(meeting); break;
      case Kind::kAllToAll: mstrain::all_to_all(meeting); break;
      case Kind::kBroadcast: mstrain::broadcast(meeting); break;
      case Kind::kMeet:
      case Kind::kMessage: break;
    }
  }

  Event come(Part part) { return Event(meet(std::move(part), do_work)); }

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
             [](Meeting& it) {
               move_elements(it.parts[1].out, 0, it.parts[0].in, 0, it.parts[0].in.count);
             });
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
