// Where a memory of steps keeps them: the last ones of some rows, each as numbers.
#pragma once

#include <span>
#include <vector>

#include "suites/reinforcement/env/bytes.h"

namespace mstrain::reinforcement {

struct StoreShape {
  int64_t steps = 0;  // that are kept, of each row
  int64_t rows = 0, numbers = 0;
  int64_t step_numbers() const { return rows * numbers; }  // of all rows
};

// Not thread-safe.
class StepStore {
 public:
  explicit StepStore(const StoreShape& shape) : shape_(shape) {}
  virtual ~StepStore() = default;

  int64_t added() const { return added_; }  // steps of each row, ever
  int64_t oldest() const { return added_ > shape_.steps ? added_ - shape_.steps : 0; }

  // The next step, [rows, numbers].
  virtual void add(std::span<const float> step) = 0;
  // Of a step that is kept: until the next one is added.
  virtual std::span<const float> at(int64_t step, int64_t row) const = 0;

  virtual int64_t saved_bytes() const = 0;  // of save()
  virtual void save(ByteWriter& to) const = 0;
  virtual void load(ByteReader& from) = 0;
  // No saved state is needed any more but those of when there were `added` steps, or more.
  virtual void release(int64_t /*added*/) {}

 protected:
  StoreShape shape_;
  int64_t added_ = 0;
};

// A ring in memory. It grows without moving, so that it takes what its shape says.
class StepsInMemory final : public StepStore {
 public:
  explicit StepsInMemory(const StoreShape& shape);
  void add(std::span<const float> step) override;
  std::span<const float> at(int64_t step, int64_t row) const override;
  int64_t saved_bytes() const override { return static_cast<int64_t>(4 * ring_.size()) + 16; }
  void save(ByteWriter& to) const override;
  void load(ByteReader& from) override;

 private:
  std::vector<float> ring_;
};

}  // namespace mstrain::reinforcement
