// The loop of a trainer over one table. Batches are prefetched ahead of the one that learns, but never across a commit.
//
//   Stream stream(cache, table, {.steps = 1000, .commit_every = 100}, [&](uint64_t step) { return ids_of(step); });
//   while (stream.next()) {                                // goes on after the cache's newest commit
//     forward_and_backward(stream.values(), gradients);    // both [positions, width]
//     if (stream.learn(gradients)) {
//       cache.commit_step(stream.step(), what_else_a_resume_needs);
//     }
//   }
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "embedding_cache/cache.h"

namespace mstrain::embedding_cache {

struct StreamOptions {
  uint64_t steps = 0;  // the last one
  uint64_t commit_every =
      0;  // steps between commits, at multiples and after the last step; 0: there alone
  uint32_t depth = 1;  // batches prefetched beyond the one that learns
};

class Stream {
 public:
  // The ids of a step's batch, asked for once, in order; they need to stay only until the next call.
  using IdsOfStep = std::function<std::span<const Id>(uint64_t step)>;
  // `cache` must stay where it is. Streams of several tables of one cache may run side by side.
  Stream(Cache& cache, uint32_t table, const StreamOptions& options, IdsOfStep ids_of_step);
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();  // as stop()

  // Moves to the next batch and waits for its rows; false after the last step. The one before must have learned.
  bool next();
  uint64_t step() const { return step_; }
  const Ticket& ticket() const { return open_.front(); }
  // Weights of the batch, [positions, width]: a copy, where gradients may be written.
  std::span<float> values() { return values_; }
  // With the optimizers of the options, learning rates but FTRL's times `lr_scale`. True where a commit is due: no ticket is open then.
  // Where it throws because gradients are not finite, the others have learned, and so has the step; after other errors it has not.
  bool learn(std::span<const float> gradients, float lr_scale = 1.0F);
  // Gives back the batches that have not learned, for a commit before one is due: step() is then the last one that has. next() goes on behind it, and asks for
  // their ids again.
  void stop();

 private:
  uint64_t commit_at(uint64_t step) const;  // the first commit at or after it
  void prefetch();

  Cache* cache_;
  uint32_t table_;
  StreamOptions options_;
  IdsOfStep ids_of_step_;
  uint64_t step_;   // that learns, or has learned
  uint64_t ahead_;  // last one prefetched
  std::deque<Ticket> open_;
  std::vector<float> values_;
};

}  // namespace mstrain::embedding_cache
