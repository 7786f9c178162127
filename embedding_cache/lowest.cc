#include "embedding_cache/lowest.h"

#include <algorithm>

namespace mstrain::embedding_cache {
namespace {

// The least number for which `holds`, which holds from some number on.
template <class F>
uint64_t least(F&& holds) {
  uint64_t low = 0;
  uint64_t high = std::numeric_limits<uint64_t>::max();
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

uint64_t score_of(Score by, const RowHeader& header) {
  return by == Score::kLru ? header.step : uint64_t{header.updates} << 32 | header.step;
}

void LowestRows::add(const ScoredRow& row) {
  if (row >= bound_) {
    return;
  }
  rows_.push_back(row);
  if (rows_.size() >= 2 * capacity_ + 1) {
    const auto first_out = rows_.begin() + static_cast<ptrdiff_t>(capacity_);
    std::nth_element(rows_.begin(), first_out, rows_.end());
    bound_ = *first_out;
    rows_.resize(capacity_);
  }
}

std::optional<ScoredRow> last_of_lowest(std::span<const ScoredRow> rows, uint64_t count,
                                        const SumOver& sum) {
  if (!sum) {
    return rows.size() < count ? std::nullopt : std::optional(rows[count - 1]);
  }
  if (sum(rows.size()) < count) {
    return std::nullopt;
  }
  const auto up_to = [&](const ScoredRow& row) {
    const auto end = std::upper_bound(rows.begin(), rows.end(), row);
    return sum(static_cast<uint64_t>(end - rows.begin())) >= count;
  };
  constexpr Id kLastId = std::numeric_limits<Id>::max();
  const uint64_t score = least([&](uint64_t each) { return up_to({each, kLastId}); });
  return ScoredRow{score, least([&](Id id) { return up_to({score, id}); })};
}

}  // namespace mstrain::embedding_cache
