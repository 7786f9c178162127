// Matrices of doubles, for kernels of linear algebra as textbooks write them.
#pragma once

#include <vector>

#include "core/backends/reference/elements.h"

namespace mstrain::reference {

struct Dense {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Dense(int64_t m, int64_t n) : rows(m), columns(n), values(static_cast<size_t>(m * n), 0.0) {}
  // Matrix `item` of a batch.
  Dense(const Elements& from, int64_t item)
      : Dense(from.dim(from.rank() - 2), from.dim(from.rank() - 1)) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = from.number(item * rows * columns + static_cast<int64_t>(i));
    }
  }
  double& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(i * columns + j)];
  }
  void store(const Elements& to, int64_t item) const {
    for (size_t i = 0; i < values.size(); ++i) {
      to.set(item * rows * columns + static_cast<int64_t>(i), values[i]);
    }
  }
};

// How many matrices the last two dims of x make.
inline int64_t batch_count(const Elements& x) {
  int64_t count = 1;
  for (int d = 0; d < x.rank() - 2; ++d) {
    count *= x.dim(d);
  }
  return count;
}

}  // namespace mstrain::reference
