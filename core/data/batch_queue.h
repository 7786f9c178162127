// Prepares batches ahead of their use, in threads of its own, and hands them out in order.
//
// Batch k holds samples [first + k * batch, first + (k + 1) * batch), or a part of these; which thread makes it changes
// nothing. The owner keeps `slots_for(options)` batches in memory; the queue says which slot to
// fill and which to read, so nothing is allocated on the way. One thread takes batches.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/data/batch_part.h"

namespace mstrain {

struct LoaderOptions {
  BatchPart batch = 1;        // samples in a batch, and which of them are made here
  int workers = 1;            // threads; 0: batches are made when they are asked for
  int depth = 2;              // batches made ahead
  double wait_seconds = 600;  // next() gives up after this, naming the sample that it waits for
};

// The position of a run in its data: all that resuming needs.
struct LoaderState {
  int64_t samples = 0;  // taken so far, by all
  bool operator==(const LoaderState&) const = default;
};

class BatchQueue {
 public:
  // Writes `sample` into row `row` of slot `slot`. Called from the workers at once for different
  // slots; the rows of one are asked for in their order, by one thread.
  using Fill = std::function<void(int64_t sample, int slot, int64_t row)>;

  BatchQueue(Fill fill, const LoaderOptions& options, LoaderState state = {});
  // Waits for the samples in the making and no more; the batches ahead are dropped.
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // Throws Error where the options make no sense.
  static int slots_for(const LoaderOptions& options);
  int slots() const { return static_cast<int>(slots_.size()); }

  // The slot of the next batch, which stays untouched until the next call. An error while making a
  // batch is thrown here, when its turn has come, with the sample's number in the message (IoError
  // stays IoError); the position stays before that batch, so calling again throws again.
  int next();

  LoaderState state() const { return state_; }

  // Goes on from `state`, as a new queue would.
  void restore(LoaderState state);

 private:
  struct Slot {
    int64_t ready = -1;  // the batch that it holds
    std::exception_ptr error;
  };

  void start();
  void stop();
  void work();
  bool make(int64_t batch, int slot);  // false when stopped
  int slot_of(int64_t batch) const { return static_cast<int>(batch % slots()); }

  const Fill fill_;
  const LoaderOptions options_;
  LoaderState first_;  // where batch 0 begins
  LoaderState state_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable wake_workers_;
  std::condition_variable wake_taker_;
  std::atomic<bool> stopping_ = false;
  int64_t handed_out_ = 0;  // batches
  int64_t started_ = 0;     // batches that a worker has begun
  std::vector<std::thread> threads_;
};

}  // namespace mstrain
