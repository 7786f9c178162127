// The memory of algorithms that learn from steps of the past: the last steps of all rows, drawn alike or by priority.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "suites/reinforcement/train/replay_items.h"
#include "suites/reinforcement/train/step_store.h"
#include "suites/reinforcement/train/sum_tree.h"

namespace mstrain::reinforcement {

// Items by their places, which name them for as long as nothing is added.
struct Drawn {
  std::vector<int64_t> places;
  std::vector<float> weights;
};

// Not thread-safe.
class Replay {
 public:
  // `steps`: where they are kept, of shape.store().
  Replay(const ReplayShape& shape, std::unique_ptr<StepStore> steps);

  // A step of this rank's rows, at which every holder adds one: observations [r, O] before it and after it (of an episode that ended, its last), actions [r, d],
  // rewards [r], flags [n], each of r / n rows, and what was remembered in front of it [r, memory_size].
  void add(std::span<const float> observations, std::span<const float> actions,
           std::span<const float> rewards, std::span<const uint8_t> terminated,
           std::span<const uint8_t> truncated, std::span<const float> next_observations,
           std::span<const float> memory = {});

  // Items that can be drawn: each begins with a step that ReplayShape::length() - 1 further ones of its row follow.
  int64_t size() const { return drawable() * shape_.rows; }

  // b of them, whoever holds them: a function of what was added and of set_errors(), of `seed` and `draw`. size() > 0. By priority: weight
  // (N p)^-importance over the greatest of the b, else 1.
  Drawn draw(int64_t b, uint64_t seed, uint64_t draw, double importance) const;

  const ReplayShape& shape() const { return shape_; }
  int64_t holder_of(int64_t place) const { return shape_.holder_of(place % shape_.rows); }
  // An item that this rank holds, [item_numbers()].
  void read(int64_t place, std::span<float> item) const;

  // What drawn items' values were wrong by: their priority is |error| + 1e-6 to the power of priority_exponent. Items that
  // were never drawn have the greatest of all so far.
  void set_errors(std::span<const int64_t> places, std::span<const float> errors);

  // save() makes room for all that it writes, and `more`.
  void save(ByteWriter& to, size_t more = 0) const;
  void load(ByteReader& from);
  void release(int64_t added) { steps_->release(added); }  // as StepStore has it

 private:
  int64_t drawable() const;
  // Where step `step` of row `row` stands among priorities, and back.
  int64_t place(int64_t step, int64_t row) const { return step % shape_.steps * shape_.rows + row; }
  int64_t step_at(int64_t place) const;

  ReplayShape shape_;
  std::unique_ptr<StepStore> steps_;
  double greatest_ = 1;
  std::optional<SumTree> tree_;
};

}  // namespace mstrain::reinforcement
