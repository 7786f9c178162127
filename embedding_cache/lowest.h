// The rows of lowest score, of one cache or of several that share a table.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "embedding_cache/options.h"
#include "embedding_cache/row.h"

namespace mstrain::embedding_cache {

// Adds a number up over all caches that share their tables; null: there is one.
using SumOver = std::function<uint64_t(uint64_t)>;

struct ScoredRow {
  uint64_t score = 0;
  Id id = 0;
  friend auto operator<=>(const ScoredRow&, const ScoredRow&) = default;
};

// What of a row decides who is forgotten first; never less after an update.
uint64_t score_of(Score by, const RowHeader& header);

// Keeps the `capacity` lowest of the rows that it is shown, and up to as many others.
class LowestRows {
 public:
  explicit LowestRows(uint64_t capacity) : capacity_(capacity) {}
  void add(const ScoredRow& row);
  // All rows below it that were shown are kept.
  const ScoredRow& bound() const { return bound_; }
  const std::vector<ScoredRow>& rows() const { return rows_; }

 private:
  uint64_t capacity_;
  std::vector<ScoredRow> rows_;
  ScoredRow bound_{std::numeric_limits<uint64_t>::max(), std::numeric_limits<Id>::max()};
};

// The last of the `count` (> 0) lowest rows of all caches together; `rows` are this one's, ascending. None where there are fewer. Every cache
// calls it, with the same count.
std::optional<ScoredRow> last_of_lowest(std::span<const ScoredRow> rows, uint64_t count,
                                        const SumOver& sum);

}  // namespace mstrain::embedding_cache
