#include "suites/reinforcement/env/running_moments.h"

#include <algorithm>
#include <cmath>

namespace mstrain::reinforcement {
namespace {

constexpr double kLeastVariance = 1e-8;

}  // namespace

void RunningMoments::add(const float* rows, int64_t n) {
  if (n == 0) {
    return;
  }
  const size_t columns = mean_.size();
  const auto added = static_cast<double>(n);
  const double total = count_ + added;
  for (size_t k = 0; k < columns; ++k) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      mean += rows[static_cast<size_t>(i) * columns + k];
    }
    mean /= added;
    for (int64_t i = 0; i < n; ++i) {
      const double off = rows[static_cast<size_t>(i) * columns + k] - mean;
      squares += off * off;
    }
    const double delta = mean - mean_[k];
    mean_[k] += delta * added / total;
    squares_[k] += squares + delta * delta * count_ * added / total;
  }
  count_ = total;
}

void RunningMoments::normalise(const float* rows, int64_t n, float limit, float* out) const {
  const size_t columns = mean_.size();
  for (size_t k = 0; k < columns; ++k) {
    const double scale = 1 / std::sqrt(variance(k) + kLeastVariance);
    for (size_t at = k; at < static_cast<size_t>(n) * columns; at += columns) {
      out[at] = std::clamp(static_cast<float>((rows[at] - mean_[k]) * scale), -limit, limit);
    }
  }
}

void RunningMoments::save(ByteWriter& out) const {
  out.put(count_);
  out.put_all(mean_);
  out.put_all(squares_);
}

void RunningMoments::load(ByteReader& in) {
  count_ = in.get<double>();
  mean_ = in.get_all<double>(mean_.size());
  squares_ = in.get_all<double>(squares_.size());
}

}  // namespace mstrain::reinforcement
