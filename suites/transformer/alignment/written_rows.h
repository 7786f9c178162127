// What steps learn of answers that the policy has written, and the batches that it makes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/base/json.h"
#include "core/train/task.h"

namespace mstrain {

// The rows of a step: [rows, seq] each, advantages [rows] of answers that are compared with their group.
struct WrittenRows {
  int64_t first = -1;  // sample of the run that the first row is
  std::vector<int32_t> tokens, targets;
  std::vector<float> advantages;
  std::vector<float> returns, values;  // where the policy has values
  std::vector<float>
      log_probs;  // of the targets, when they were written; empty: they are learnt from once
  std::vector<int32_t> supports;  // [rows, seq, k] where they are kept, see DrawnFrom
  std::vector<float> rewards;     // [rows], of answers that are new
  bool is_new = true;             // no step has learnt from them

  // What checkpoints hold, where several steps learn from the same answers.
  Json state() const;
  void restore(const Json& state);
};

// A rank's part of each step's rows, which are written by the time that the stream is asked for them.
std::unique_ptr<BatchStream> written_batches(std::shared_ptr<const WrittenRows> rows, int64_t seq,
                                             const BatchPart& part, int64_t first);

// Held-out answers in the form of these batches: 0 for what only training looks at.
EvaluationSet with_advantages(EvaluationSet set, std::function<Types(int64_t rows)> batch_types);

}  // namespace mstrain
