// Batches of token windows, prepared ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/data/batch_queue.h"
#include "core/data/windows.h"

namespace mstrain {

struct TokenBatch {
  int64_t batch = 0;             // rows
  int64_t seq = 0;               // tokens in a row
  std::vector<int32_t> tokens;   // [batch, seq]
  std::vector<int32_t> targets;  // [batch, seq]: the token after each, or kIgnoreTarget
};

// The same batches whatever the number of workers; LoaderState is exact: a loader at state() gives
// what this one would give next. One thread at a time may use a loader.
class TokenLoader {
 public:
  TokenLoader(std::shared_ptr<const WindowSource> source, const LoaderOptions& options,
              LoaderState state = {});

  // Valid until the next call. Errors: see BatchQueue::next.
  const TokenBatch& next() { return slots_[queue_.next()]; }

  LoaderState state() const { return queue_.state(); }
  void restore(LoaderState state) { queue_.restore(state); }

 private:
  std::shared_ptr<const WindowSource> source_;
  std::vector<TokenBatch> slots_;
  BatchQueue queue_;  // last: its threads write into the slots
};

}  // namespace mstrain
