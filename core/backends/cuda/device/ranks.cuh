// Reductions over ranks, element by element and in one order: those of core/comm/sums.cc, bit for bit.
#pragma once

#include "core/backends/cuda/device/kernel.cuh"

namespace mstrain::cuda {

// Integers wrap; a sum of bool is true where any is.
struct RankSum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
// NaN beats all numbers; of equals the later stays.
struct RankMax {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct RankMin {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

}  // namespace mstrain::cuda
