#include "core/schedule/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr std::string_view kNames[] = {"gpipe", "1f1b", "interleaved", "zb_h1", "zbv"};

// Appends the actions of a rank, each work of a chunk on one micro-batch after the other. What is beyond the last micro-batch
// is left out.
class RankWriter {
 public:
  RankWriter(Schedule& schedule, int rank) : schedule_(schedule), rank_(rank) {}

  void add(Work work, int chunk, int micro_batch) {
    if (micro_batch < schedule_.micro_batches) {
      schedule_.actions.push_back({rank_, work, chunk, micro_batch});
    }
  }
  void update() { schedule_.actions.push_back({rank_, Work::kUpdate, 0, 0}); }

 private:
  Schedule& schedule_;
  int rank_;
};

Schedule empty_schedule(ScheduleKind kind, int ranks, int chunks, int micro_batches) {
  check(ranks >= 1 && chunks >= ranks && micro_batches >= 1,
        "a schedule of {} ranks, {} chunks and {} micro-batches", ranks, chunks, micro_batches);
  return {std::string(name_of(kind)), ranks, chunks, micro_batches, {}};
}

}  // namespace

std::string_view name_of(ScheduleKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string to_string(const Action& action) {
  constexpr std::string_view kLetters = "FBWU";
  const char letter = kLetters[static_cast<size_t>(action.work)];
  return action.work == Work::kUpdate
             ? std::string(1, letter)
             : fmt::format("{}{}.{}", letter, action.chunk, action.micro_batch);
}

bool Schedule::splits_backward() const {
  return std::any_of(actions.begin(), actions.end(),
                     [](const Action& it) { return it.work == Work::kWeights; });
}

std::vector<std::vector<Action>> Schedule::by_rank() const {
  std::vector<std::vector<Action>> out(static_cast<size_t>(ranks));
  for (const Action& action : actions) {
    out.at(static_cast<size_t>(action.rank)).push_back(action);
  }
  return out;
}

Schedule gpipe_schedule(int ranks, int micro_batches) {
  std::vector<int> chunk_rank(static_cast<size_t>(ranks));
  std::iota(chunk_rank.begin(), chunk_rank.end(), 0);
  return gpipe_schedule(chunk_rank, micro_batches);
}

// Each rank does first what would reach it first were all work equally long.
Schedule gpipe_schedule(const std::vector<int>& chunk_rank, int micro_batches) {
  const auto chunks = static_cast<int>(chunk_rank.size());
  const int ranks = 1 + *std::max_element(chunk_rank.begin(), chunk_rank.end());
  Schedule out = empty_schedule(ScheduleKind::kGpipe, ranks, chunks, micro_batches);
  for (int r = 0; r < ranks; ++r) {
    RankWriter rank(out, r);
    for (Work work : {Work::kForward, Work::kBackward}) {
      for (int time = 0; time < chunks + micro_batches; ++time) {
        for (int nth = 0; nth <= std::min(time, chunks - 1); ++nth) {
          const int chunk = work == Work::kForward ? nth : chunks - 1 - nth;
          if (chunk_rank[static_cast<size_t>(chunk)] == r) {
            rank.add(work, chunk, time - nth);
          }
        }
      }
    }
    rank.update();
  }
  return out;
}

Schedule one_f_one_b_schedule(int ranks, int micro_batches) {
  Schedule out = empty_schedule(ScheduleKind::k1f1b, ranks, ranks, micro_batches);
  for (int r = 0; r < ranks; ++r) {
    RankWriter rank(out, r);
    const int ahead = ranks - r;
    for (int m = 0; m < ahead; ++m) {
      rank.add(Work::kForward, r, m);
    }
    for (int m = 0; m < micro_batches; ++m) {
      rank.add(Work::kBackward, r, m);
      rank.add(Work::kForward, r, m + ahead);
    }
    rank.update();
  }
  return out;
}

// Micro-batches go through a rank's chunks in groups of `ranks`, so that each comes back just when it is due. A last group
// that is not full leaves its places empty.
Schedule interleaved_schedule(int ranks, int each, int micro_batches) {
  Schedule out = empty_schedule(ScheduleKind::kInterleaved, ranks, ranks * each, micro_batches);
  const int groups = (micro_batches + ranks - 1) / ranks;
  const int turns = groups * ranks * each;
  for (int r = 0; r < ranks; ++r) {
    RankWriter rank(out, r);
    const auto turn = [&](Work work, int k) {
      if (k >= turns) {
        return;
      }
      const int within = k % (ranks * each);
      const int nth = work == Work::kForward ? within / ranks : each - 1 - within / ranks;
      rank.add(work, nth * ranks + r, k / (ranks * each) * ranks + within % ranks);
    };
    const int ahead = std::min(turns, 2 * (ranks - r - 1) + (each - 1) * ranks + 1);
    for (int k = 0; k < ahead; ++k) {
      turn(Work::kForward, k);
    }
    for (int k = 0; k < turns; ++k) {
      turn(Work::kBackward, k);
      turn(Work::kForward, k + ahead);
    }
    rank.update();
  }
  return out;
}

// 1f1b, where rank r does the weights of a micro-batch r turns late: so every rank has as many in flight as the first, and has
// work left for when it would wait at the end.
Schedule zb_h1_schedule(int ranks, int micro_batches) {
  Schedule out = empty_schedule(ScheduleKind::kZbH1, ranks, ranks, micro_batches);
  for (int r = 0; r < ranks; ++r) {
    RankWriter rank(out, r);
    const int ahead = ranks - r;
    for (int m = 0; m < ahead; ++m) {
      rank.add(Work::kForward, r, m);
    }
    for (int m = 0; m < micro_batches; ++m) {
      rank.add(Work::kBackward, r, m);
      if (m >= r) {
        rank.add(Work::kWeights, r, m - r);
      }
      rank.add(Work::kForward, r, m + ahead);
    }
    for (int m = std::max(0, micro_batches - r); m < micro_batches; ++m) {
      rank.add(Work::kWeights, r, m);
    }
    rank.update();
  }
  return out;
}

Schedule zbv_schedule(int ranks, int micro_batches) {
  Schedule out = empty_schedule(ScheduleKind::kZbv, ranks, 2 * ranks, micro_batches);
  const int places = std::max(micro_batches, 2 * ranks - 1);  // a shorter step leaves some empty
  for (int r = 0; r < ranks; ++r) {
    RankWriter rank(out, r);
    int next[3][2] = {};  // micro-batch, by work and leg of the V
    const auto add = [&](Work work, int leg) {
      rank.add(work, leg == 0 ? r : 2 * ranks - 1 - r, next[static_cast<int>(work)][leg]++);
    };
    const auto back = [&](int leg) {
      add(Work::kBackward, leg);
      add(Work::kWeights, leg);
    };
    const int& down = next[static_cast<int>(Work::kForward)][0];
    const int& up = next[static_cast<int>(Work::kForward)][1];
    for (int i = 0; i < 2 * (ranks - r) - 1; ++i) {
      add(Work::kForward, 0);
    }
    for (int i = 0; i < r; ++i) {
      add(Work::kForward, 1);
      add(Work::kForward, 0);
    }
    for (int i = 0; i < ranks - r; ++i) {
      add(Work::kForward, 1);
      back(1);
    }
    while (up < down || down < places) {
      if (down < places) {
        add(Work::kForward, 0);
      }
      back(0);
      add(Work::kForward, 1);
      back(1);
    }
    for (int i = 0; i < r; ++i) {
      add(Work::kBackward, 0);
      add(Work::kBackward, 1);
    }
    for (int i = 0; i < ranks - r; ++i) {
      back(0);
    }
    for (int leg : {1, 0}) {
      while (next[static_cast<int>(Work::kWeights)][leg] < places) {
        add(Work::kWeights, leg);
      }
    }
    rank.update();
  }
  return out;
}

Schedule make_schedule(ScheduleKind kind, int ranks, int each, int micro_batches) {
  switch (kind) {
    case ScheduleKind::kGpipe: return gpipe_schedule(ranks, micro_batches);
    case ScheduleKind::k1f1b: return one_f_one_b_schedule(ranks, micro_batches);
    case ScheduleKind::kInterleaved: return interleaved_schedule(ranks, each, micro_batches);
    case ScheduleKind::kZbH1: return zb_h1_schedule(ranks, micro_batches);
    case ScheduleKind::kZbv: return zbv_schedule(ranks, micro_batches);
  }
  fail("no such schedule");
}

double bubble_formula(ScheduleKind kind, int ranks, int each, int micro_batches) {
  const double behind = ranks - 1;
  const double micro = micro_batches;
  switch (kind) {
    case ScheduleKind::kGpipe:
    case ScheduleKind::k1f1b: return behind / micro;
    case ScheduleKind::kInterleaved: return behind / (each * micro);
    case ScheduleKind::kZbH1: return behind / (3 * micro);
    case ScheduleKind::kZbv: return std::max(0.0, 2 * behind + 1 - micro) / (3 * micro);
  }
  fail("no such schedule");
}

int most_in_flight(ScheduleKind kind, int ranks, int each, int micro_batches, int rank) {
  switch (kind) {
    case ScheduleKind::kGpipe: return micro_batches;
    case ScheduleKind::k1f1b: return std::min(micro_batches, ranks - rank);
    case ScheduleKind::kInterleaved:
      return std::min(each * micro_batches, 2 * (ranks - rank - 1) + (each - 1) * ranks + 1);
    case ScheduleKind::kZbH1: return std::min(micro_batches, ranks);
    case ScheduleKind::kZbv: return 2 * std::min(micro_batches, ranks);
  }
  fail("no such schedule");
}

}  // namespace mstrain
