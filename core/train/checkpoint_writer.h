// Writes checkpoints beside training: the state is copied, which is all that training waits for, and a thread of its own
// writes the copy.
#pragma once

#include <functional>
#include <future>
#include <optional>

#include "core/base/thread_pool.h"
#include "core/train/checkpoint.h"

namespace mstrain {

// One thread may use a writer. At most one checkpoint is being written; the next one waits for it.
class CheckpointWriter {
 public:
  using Write = std::function<void(const CheckpointContents&)>;

  CheckpointWriter() = default;
  // Waits for what is being written; a failure that nobody was told of is logged.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Calls write(copy of `contents`) in the thread and returns when the copy is made. The memory of the copy, allocated in
  // the current context, is kept for the next one. Throws what stopped the write before.
  void submit(const CheckpointContents& contents, Write write);

  // Whether a write has ended since this was last asked. Throws what stopped it.
  bool poll();
  // Returns when nothing is being written. Throws what stopped it.
  void wait();

 private:
  void copy(const CheckpointContents& contents);

  std::optional<ThreadPool> thread_;
  CheckpointContents copy_;  // the thread's as long as `pending_` is not ready
  std::future<void> pending_;
  bool ended_ = false;
};

}  // namespace mstrain
