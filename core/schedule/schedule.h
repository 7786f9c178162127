// Pipeline schedules as data: who works on what, in which order. A model is cut into chunks 0 … chunks - 1, one behind the
// other; each lies on one rank. For every micro-batch a chunk works forward, then backward; where a schedule splits the
// backward pass, the gradients of its weights are work of their own, which nobody waits for but the update.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mstrain {

// Letters in texts: F, B, W, U. In a schedule without W, B computes all gradients.
enum class Work : uint8_t { kForward, kBackward, kWeights, kUpdate };

struct Action {
  int rank = 0;
  Work work = Work::kForward;
  int chunk = 0, micro_batch = 0;  // 0 for an update, which is of all chunks of its rank
  friend bool operator==(const Action&, const Action&) = default;
};

// "F3.17": forward, chunk 3, micro-batch 17; "U"
std::string to_string(const Action& action);

struct Schedule {
  std::string name;
  int ranks = 1, chunks = 1, micro_batches = 1;
  std::vector<Action> actions;  // those of a rank in its order

  bool splits_backward() const;
  std::vector<std::vector<Action>> by_rank() const;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

enum class ScheduleKind : uint8_t { kGpipe, k1f1b, kInterleaved, kZbH1, kZbv };
inline constexpr ScheduleKind kScheduleKinds[] = {ScheduleKind::kGpipe, ScheduleKind::k1f1b,
                                                  ScheduleKind::kInterleaved, ScheduleKind::kZbH1,
                                                  ScheduleKind::kZbv};
std::string_view name_of(ScheduleKind kind);

// All forward, then all backward (Huang et al. 2019).
Schedule gpipe_schedule(int ranks, int micro_batches);
// The same where chunk c lies on rank chunk_rank[c]; every rank has some.
Schedule gpipe_schedule(const std::vector<int>& chunk_rank, int micro_batches);
// One forward, one backward (Narayanan et al. 2019): rank r has at most ranks - r micro-batches in flight.
Schedule one_f_one_b_schedule(int ranks, int micro_batches);
// Chunk c lies on rank c mod ranks; each rank has `each` (Narayanan et al. 2021).
Schedule interleaved_schedule(int ranks, int each, int micro_batches);
// The memory of 1f1b, a third of its idle time where F, B and W take equally long (Qi et al. 2023).
Schedule zb_h1_schedule(int ranks, int micro_batches);
// Two chunks a rank, r and 2 ranks - 1 - r: the last rank turns around by itself, the first begins and ends. The memory of
// 1f1b, and no idle time from 2 ranks - 1 micro-batches on (Qi et al. 2024).
Schedule zbv_schedule(int ranks, int micro_batches);

// `each`: chunks of a rank, for the interleaved one.
Schedule make_schedule(ScheduleKind kind, int ranks, int each, int micro_batches);

// Idle time of the rank that waits most between its first and last work, over its working time, where a forward pass takes
// half as long as a backward pass and W as long as B: known for make_schedule(), the interleaved one for multiples of `ranks`.
double bubble_formula(ScheduleKind kind, int ranks, int each, int micro_batches);

// Chunks whose activations a rank has at once, at most.
int most_in_flight(ScheduleKind kind, int ranks, int each, int micro_batches, int rank);

// As text, for files:
//   schedule zb_h1
//   ranks 4
//   chunks 4
//   micro_batches 8
//   rank 0: F0.0 F0.1 F0.2 F0.3 B0.0 W0.0 … U
// `#` begins a comment.
std::string to_text(const Schedule& schedule);
// Throws ConfigError with `name` and the line. What it gives may still be no valid schedule: see check_schedule().
Schedule parse_schedule(std::string_view text, const std::string& name);

}  // namespace mstrain
