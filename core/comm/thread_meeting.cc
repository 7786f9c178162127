#include "core/comm/thread_meeting.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstring>

#include "core/base/wait.h"
#include "core/comm/sums.h"

namespace mstrain::thread_ranks {
namespace {

constexpr std::string_view kKinds[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                       "broadcast",  "barrier",        "message"};

std::string_view called(const Part& part) {
  return part.what.empty() ? kKinds[static_cast<size_t>(part.kind)] : part.what;
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

}  // namespace

std::string describe(const Meeting& meeting) {
  const auto first = std::find(meeting.here.begin(), meeting.here.end(), true);
  return fmt::format("{} of {}",
                     called(meeting.parts[static_cast<size_t>(first - meeting.here.begin())]),
                     meeting.owner->name);
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

void carry_out(Meeting& meeting) {
  switch (meeting.parts[0].kind) {
    case Kind::kAllReduce: all_reduce(meeting); break;
    case Kind::kReduceScatter: reduce_scatter(meeting); break;
    case Kind::kAllGather: all_gather(meeting); break;
    case Kind::kAllToAll: all_to_all(meeting); break;
    case Kind::kBroadcast: broadcast(meeting); break;
    case Kind::kMessage: {
      const Elements& from = meeting.parts[0].in;
      move_elements(meeting.parts[1].out, 0, from, 0, from.count);
      break;
    }
    case Kind::kMeet: break;
  }
}

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

}  // namespace mstrain::thread_ranks
