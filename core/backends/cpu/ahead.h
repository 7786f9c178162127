// Memory that is asked for before it is read.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mstrain::cpu {

// A part of a matrix that is read soon: its lines are asked for a few at a time, between the sums that come first.
class Ahead {
 public:
  Ahead() = default;
  // `rows` rows of `floats` each, `step` apart, within `calls` calls of ask().
  Ahead(const float* first, int64_t rows, int64_t floats, int64_t step, int64_t calls)
      : at_(first),
        rows_(rows),
        floats_(floats),
        step_(step),
        rows_at_once_((rows + calls - 1) / std::max<int64_t>(calls, 1)) {}

  void ask() {
    for (int64_t r = std::min(rows_, rows_at_once_); r > 0; --r, --rows_, at_ += step_) {
      for (int64_t j = 0; j < floats_; j += kLineFloats) {
        __builtin_prefetch(at_ + j, 0, 2);
      }
    }
  }

 private:
  static constexpr int64_t kLineFloats = 16;
  const float* at_ = nullptr;
  int64_t rows_ = 0, floats_ = 0, step_ = 0, rows_at_once_ = 0;
};

}  // namespace mstrain::cpu
