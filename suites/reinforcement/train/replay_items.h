// What is drawn from a memory of steps: a step, or a sequence of them, as numbers one after another; and a batch of such items.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "suites/reinforcement/algorithms/off_policy.h"
#include "suites/reinforcement/train/step_store.h"

namespace mstrain::reinforcement {

struct ReplayShape {
  int64_t steps = 0;  // of each row
  int64_t rows = 0, observation_size = 0, action_size = 0;
  // Ranks that keep equal parts of the rows, one after another, and which of them this is. Priorities are kept by each, of all rows.
  int64_t holders = 1, holder = 0;
  int64_t memory_size = 0;          // that a row remembers: sequences are drawn; 0: steps alone
  int64_t burn_in = 0, unroll = 1;  // steps of a sequence: in front of those to learn from; those
  int64_t n_step = 1;
  double discount = 1;
  std::optional<double> priority_exponent;  // none: all are drawn alike

  bool is_of_sequences() const { return memory_size > 0; }
  // Steps of a row, one behind the other, that an item takes; and those of them that are not burnt in.
  int64_t length() const { return burn_in + rest(); }
  int64_t rest() const { return unroll + n_step - 1; }
  int64_t items() const { return steps * rows; }
  int64_t step_numbers() const { return 2 * observation_size + memory_size + action_size + 2; }
  int64_t item_numbers() const;
  int64_t own_rows() const { return rows / holders; }
  int64_t holder_of(int64_t row) const { return row / own_rows(); }
  StoreShape store() const {
    return {.steps = steps, .rows = own_rows(), .numbers = step_numbers()};
  }
  int64_t priority_bytes() const;
  // Bytes of this rank's steps themselves; and of a list of priorities as it is saved.
  int64_t step_bytes() const { return steps * own_rows() * step_numbers() * 4; }
  int64_t saved_priority_bytes() const { return priority_exponent ? 8 * items() : 0; }
};

// A stored step of a row, as numbers: observations before and after it, what was remembered in front of it, action, reward, ends.
class StepView {
 public:
  StepView(const ReplayShape& shape, std::span<const float> numbers)
      : shape_(shape), numbers_(numbers) {}

  std::span<const float> observation() const { return part(0, shape_.observation_size); }
  std::span<const float> next_observation() const {
    return part(shape_.observation_size, shape_.observation_size);
  }
  std::span<const float> memory() const {
    return part(2 * shape_.observation_size, shape_.memory_size);
  }
  std::span<const float> action() const {
    return part(2 * shape_.observation_size + shape_.memory_size, shape_.action_size);
  }
  float reward() const { return numbers_[numbers_.size() - 2]; }
  bool terminated() const { return (ends() & 1) != 0; }
  bool truncated() const { return (ends() & 2) != 0; }
  static float ends_of(bool terminated, bool truncated) {
    return static_cast<float>((terminated ? 1 : 0) + (truncated ? 2 : 0));
  }

 private:
  std::span<const float> part(int64_t begin, int64_t size) const {
    return numbers_.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
  }
  int ends() const { return static_cast<int>(numbers_.back()); }

  const ReplayShape& shape_;
  std::span<const float> numbers_;
};

// The item of `steps`, length() of them. Over steps that end an episode nothing is summed; behind a truncated one follows its own last
// observation.
void write_item(const ReplayShape& shape, std::span<const StepView> steps, std::span<float> item);

// Of items [b, item_numbers()] all but the noise; `weights` [b].
OffPolicyBatch batch_of(const ReplayShape& shape, std::span<const float> items,
                        std::span<const float> weights);

}  // namespace mstrain::reinforcement
