// The memory of algorithms that learn from steps of the past: a ring of the last steps of all rows, drawn alike or by priority.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/tensor.h"
#include "suites/reinforcement/env/bytes.h"
#include "suites/reinforcement/train/sum_tree.h"

namespace mstrain::reinforcement {

struct ReplayShape {
  int64_t steps = 0;  // of each row
  int64_t rows = 0, observation_size = 0, action_size = 0;
  int64_t n_step = 1;
  double discount = 1;
  std::optional<double> priority_exponent;  // none: all are drawn alike

  int64_t items() const { return steps * rows; }
  int64_t item_bytes() const { return 4 * (2 * observation_size + action_size + 1) + 2; }
  int64_t bytes() const;
  int64_t saved_bytes() const;  // at most: of save()
};

// Drawn steps. `places` name them in set_errors().
struct ReplaySample {
  Tensor observation_bo, action_bd, reward_b, discount_b, next_observation_bo, weight_b;
  std::vector<int64_t> places;
};

// Not thread-safe.
class Replay {
 public:
  explicit Replay(const ReplayShape& shape);

  // A step of all rows: observations [r, O] before it and after it (of an episode that ended, its last), actions [r, d],
  // rewards [r], and flags [n], each of r / n rows.
  void add(std::span<const float> observations, std::span<const float> actions,
           std::span<const float> rewards, std::span<const uint8_t> terminated,
           std::span<const uint8_t> truncated, std::span<const float> next_observations);

  // Steps that can be drawn: those that n_step - 1 further ones of their row follow.
  int64_t size() const { return drawable() * shape_.rows; }

  // b of them, a function of what is stored, of `seed` and `draw`. size() > 0. Over steps that end an episode nothing is
  // summed; behind a truncated one follows its own last observation. By priority: weight (N p)^-importance over the greatest
  // in the sample, else 1.
  ReplaySample sample(int64_t b, uint64_t seed, uint64_t draw, double importance) const;

  // What drawn steps' values were wrong by: their priority is |error| + 1e-6 to the power of priority_exponent. Steps that
  // were never drawn have the greatest of all so far.
  void set_errors(std::span<const int64_t> places, std::span<const float> errors);

  // `more`: bytes that the caller writes behind it, for which room is made as well.
  void save(ByteWriter& to, size_t more = 0) const;
  void load(ByteReader& from);

 private:
  int64_t oldest() const { return added_ > shape_.steps ? added_ - shape_.steps : 0; }
  int64_t drawable() const;
  // Rings grow without moving, so that they take what ReplayShape::bytes() says.
  void reserve();
  // Where step `step` of row `row` lies.
  int64_t place(int64_t step, int64_t row) const { return step % shape_.steps * shape_.rows + row; }
  int64_t step_at(int64_t place) const;

  ReplayShape shape_;
  int64_t added_ = 0;  // steps of each row, ever
  double greatest_ = 1;
  std::vector<float> observations_, actions_, rewards_, next_observations_;
  std::vector<uint8_t> terminated_, truncated_;
  std::optional<SumTree> tree_;
};

}  // namespace mstrain::reinforcement
