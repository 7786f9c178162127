// Mean and variance of rows that come in batches (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979). A batch is summed in the order of its rows: the same bits for the same batches.
#pragma once

#include <cstdint>
#include <vector>

#include "suites/reinforcement/env/bytes.h"

namespace mstrain::reinforcement {

class RunningMoments {
 public:
  explicit RunningMoments(int64_t columns)
      : mean_(static_cast<size_t>(columns)), squares_(static_cast<size_t>(columns)) {}

  // rows [n, columns].
  void add(const float* rows, int64_t n);

  double mean(size_t column) const { return mean_[column]; }
  double variance(size_t column) const {  // 1 before anything was seen
    return count_ > 0 ? squares_[column] / count_ : 1;
  }
  // out[i] = (rows[i] - mean) / deviation, cut to ± limit; `out` may be `rows`.
  void normalise(const float* rows, int64_t n, float limit, float* out) const;

  void save(ByteWriter& out) const;
  void load(ByteReader& in);

 private:
  double count_ = 0;
  std::vector<double> mean_, squares_;  // squares: of distances from the mean
};

}  // namespace mstrain::reinforcement
