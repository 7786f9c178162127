#include "suites/transformer/alignment/length_order.h"

#include <algorithm>

#include "core/base/error.h"
#include "suites/transformer/alignment/answer_rows.h"

namespace mstrain {
namespace {

constexpr int64_t kMostSamples = 4'000'000;

}  // namespace

LengthOrder::LengthOrder(std::vector<Lengths> rows, bool shuffle)
    : rows_(std::move(rows)), shuffle_(shuffle) {}

std::vector<int64_t> LengthOrder::sorted(uint64_t seed, int64_t first, int64_t count) const {
  std::vector<int64_t> out;
  for (int64_t sample = first; sample < first + count; ++sample) {
    out.push_back(row_of_sample(std::ssize(rows_), shuffle_, seed, sample));
  }
  std::ranges::stable_sort(out, {},
                           [&](int64_t row) { return rows_[static_cast<size_t>(row)].positions; });
  return out;
}

std::vector<int64_t> LengthOrder::batch(uint64_t seed, int64_t first, int64_t count) const {
  const std::scoped_lock lock(mutex_);
  const bool is_known = std::ranges::any_of(known_, [&](const auto& known) {
    const StepRange& steps = known.first;
    return steps.seed == seed && steps.batch == count && first >= steps.first &&
           (first - steps.first) % count == 0 && first + count <= steps.end;
  });
  check(is_known || known_.empty(),
        "the batch of {} from sample {} on is of no step whose lengths were looked at", count,
        first);
  return sorted(seed, first, count);
}

std::vector<LengthOrder::Lengths> LengthOrder::longest(const StepRange& steps) const {
  const std::scoped_lock lock(mutex_);
  const auto [found, is_new] = known_.try_emplace(steps);
  if (!is_new || rows_.empty() || steps.end - steps.first > kMostSamples) {
    return found->second;
  }
  std::vector<Lengths> most(static_cast<size_t>(steps.batch));
  for (int64_t first = steps.first; first < steps.end; first += steps.batch) {
    const std::vector<int64_t> rows = sorted(steps.seed, first, steps.batch);
    for (size_t place = 0; place < rows.size(); ++place) {
      const Lengths& it = rows_[static_cast<size_t>(rows[place])];
      most[place].positions = std::max(most[place].positions, it.positions);
      most[place].answer = std::max(most[place].answer, it.answer);
    }
  }
  for (size_t place = 1; place < most.size(); ++place) {
    most[place].answer = std::max(most[place].answer, most[place - 1].answer);
  }
  found->second = std::move(most);
  return found->second;
}

std::vector<LengthOrder::Lengths> lengths_of(const std::vector<AnswerSample>& samples, bool whole) {
  std::vector<LengthOrder::Lengths> out;
  for (const AnswerSample& sample : samples) {
    LengthOrder::Lengths& it = out.emplace_back();
    for (const AnswerText& text : sample.texts) {
      const int64_t ids = std::ssize(text.ids);
      it.positions = std::max(it.positions, whole ? ids : ids - 1);
      it.answer = std::max(it.answer, ids - text.answer);
    }
  }
  return out;
}

}  // namespace mstrain
