// Batches of samples of unlike lengths in rising order of these, so that what stands at a place of a batch is about as long in every step, and how long
// that is at most is known before a run begins.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "core/train/task.h"
#include "suites/transformer/alignment/answers.h"

namespace mstrain {

// Safe to use from several threads.
class LengthOrder {
 public:
  struct Lengths {
    int64_t positions = 0;  // of a sample's row
    int64_t answer = 0;     // tokens of its longest answer
  };
  // `rows`: of every row of the data; their order in the run is that of row_of_sample().
  LengthOrder(std::vector<Lengths> rows, bool shuffle);

  // The rows of the batch of `count` samples that begins with sample `first`. Throws Error for one that is not of the steps that longest() was asked
  // of, where it was asked.
  std::vector<int64_t> batch(uint64_t seed, int64_t first, int64_t count) const;

  // By place in a batch, the most of any sample that stands there, or before, in any of `steps`. Empty where these are so many samples that
  // looking at all of them would take seconds.
  std::vector<Lengths> longest(const StepRange& steps) const;

 private:
  std::vector<int64_t> sorted(uint64_t seed, int64_t first, int64_t count) const;

  std::vector<Lengths> rows_;
  bool shuffle_;
  mutable std::mutex mutex_;
  mutable std::map<StepRange, std::vector<Lengths>> known_;
};

// Of samples each of which has a row of its own. `whole`: whose tokens are all given (RowKind::kEnds).
std::vector<LengthOrder::Lengths> lengths_of(const std::vector<AnswerSample>& samples, bool whole);

}  // namespace mstrain
