#include "suites/reinforcement/train/replay_items.h"

#include <algorithm>

#include "core/tensor/host.h"
#include "suites/reinforcement/algorithms/estimators.h"
#include "suites/reinforcement/algorithms/sizes.h"
#include "suites/reinforcement/train/sum_tree.h"

namespace mstrain::reinforcement {
namespace {

// The parts of an item in their order, each of `times` times `width` numbers.
struct ItemPart {
  int64_t times = 0, width = 0;
  int64_t numbers() const { return times * width; }
};
struct ItemParts {
  explicit ItemParts(const ReplayShape& s)
      : memory{1, s.memory_size},
        kept{s.is_of_sequences() ? s.length() : 0, 1},
        observation{s.is_of_sequences() ? s.length() : 1, s.observation_size},
        next_observation{s.is_of_sequences() ? s.rest() : 1, s.observation_size},
        action{s.unroll, s.action_size},
        reward{s.unroll, 1},
        discount{s.unroll, 1},
        last{s.is_of_sequences() ? s.unroll : 0, 1} {}

  ItemPart memory, kept, observation, next_observation, action, reward, discount, last;
};

// Reads the parts of all items one after another.
class ItemColumns {
 public:
  ItemColumns(std::span<const float> items, int64_t b) : items_(items), b_(b) {}

  // The next part of every item, [times b, width] by time.
  std::vector<float> next(const ItemPart& part) {
    std::vector<float> out;
    out.reserve(count(part.numbers() * b_));
    const int64_t item = static_cast<int64_t>(items_.size()) / b_;
    for (int64_t time = 0; time < part.times; ++time) {
      for (int64_t i = 0; i < b_; ++i) {
        const std::span<const float> from =
            items_.subspan(count(i * item + at_ + time * part.width), count(part.width));
        out.insert(out.end(), from.begin(), from.end());
      }
    }
    at_ += part.numbers();
    return out;
  }
  Tensor next_rows(const ItemPart& part) {
    return tensor<float>(next(part), {part.times * b_, part.width});
  }
  Tensor next_numbers(const ItemPart& part) { return tensor<float>(next(part), {part.times * b_}); }

 private:
  std::span<const float> items_;
  int64_t b_, at_ = 0;
};

}  // namespace

int64_t ReplayShape::item_numbers() const {
  const ItemParts parts(*this);
  int64_t sum = 0;
  for (const ItemPart& part : {parts.memory, parts.kept, parts.observation, parts.next_observation,
                               parts.action, parts.reward, parts.discount, parts.last}) {
    sum += part.numbers();
  }
  return sum;
}

int64_t ReplayShape::priority_bytes() const {
  return priority_exponent ? SumTree::bytes(items()) : 0;
}

void write_item(const ReplayShape& shape, std::span<const StepView> steps, std::span<float> item) {
  const auto put = [&](std::span<const float> values) {
    std::ranges::copy(values, item.begin());
    item = item.subspan(values.size());
  };
  const auto put_number = [&](float value) { put(std::span(&value, 1)); };
  const std::span<const StepView> rest = steps.subspan(count(shape.burn_in));
  std::vector<float> rewards;
  std::vector<uint8_t> ended, cut;
  for (const StepView& step : rest) {
    rewards.push_back(step.reward());
    ended.push_back(step.terminated() ? 1 : 0);
    cut.push_back(step.truncated() ? 1 : 0);
  }
  std::vector<NStep> sums;
  const size_t n = count(shape.n_step);
  for (size_t u = 0; u < count(shape.unroll); ++u) {
    sums.push_back(n_step(std::span(rewards).subspan(u, n), std::span(ended).subspan(u, n),
                          std::span(cut).subspan(u, n), shape.discount));
  }
  if (shape.is_of_sequences()) {
    put(steps.front().memory());
    put_number(1);
    for (const StepView& before : steps.first(steps.size() - 1)) {
      put_number(before.terminated() || before.truncated() ? 0 : 1);
    }
    for (const StepView& step : steps) {
      put(step.observation());
    }
    for (const StepView& step : rest) {
      put(step.next_observation());
    }
  } else {
    put(steps.front().observation());
    put(rest[count(sums.front().steps - 1)].next_observation());
  }
  for (const StepView& step : rest.first(sums.size())) {
    put(step.action());
  }
  for (const NStep& sum : sums) {
    put_number(static_cast<float>(sum.reward));
  }
  for (const NStep& sum : sums) {
    put_number(static_cast<float>(sum.discount));
  }
  for (size_t u = 0; shape.is_of_sequences() && u < sums.size(); ++u) {
    put_number(static_cast<float>(static_cast<int64_t>(u) + sums[u].steps - 1));
  }
}

OffPolicyBatch batch_of(const ReplayShape& shape, std::span<const float> items,
                        std::span<const float> weights) {
  const ItemParts parts(shape);
  const auto b = static_cast<int64_t>(weights.size());
  ItemColumns columns(items, b);
  OffPolicyBatch out;
  if (shape.is_of_sequences()) {
    out.sequences.emplace();
    out.sequences->memory_bm = columns.next_rows(parts.memory);
    out.sequences->kept_lb = tensor<float>(columns.next(parts.kept), {shape.length(), b});
  }
  out.observation_bo = columns.next_rows(parts.observation);
  out.next_observation_bo = columns.next_rows(parts.next_observation);
  out.action_bd = columns.next_rows(parts.action);
  out.reward_b = columns.next_numbers(parts.reward);
  out.discount_b = columns.next_numbers(parts.discount);
  if (shape.is_of_sequences()) {
    const std::vector<float> last = columns.next(parts.last);
    out.sequences->last_ub =
        tensor<int32_t>(std::vector<int32_t>(last.begin(), last.end()), {shape.unroll, b});
  }
  out.weight_b = tensor<float>(weights, {b});
  return out;
}

}  // namespace mstrain::reinforcement
