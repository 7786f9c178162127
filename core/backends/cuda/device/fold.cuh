// Folds of any elements, in an order that the text fixes; the place of the best one; order for sorting.
#pragma once

#include "core/backends/cuda/device/kernel.cuh"

namespace mstrain::cuda {

struct Product {};

// Sums and products of integers wrap; extrema begin with the type's own bounds.
template <class How>
struct Fold {
  template <class T>
  static T none() {
    if constexpr (std::is_same_v<How, Product>) {
      return T(1);
    } else if constexpr (std::is_same_v<How, Sum>) {
      return T(0);
    } else if constexpr (std::is_same_v<T, bool>) {
      return std::is_same_v<How, Min>;
    } else if constexpr (std::is_integral_v<T>) {
      return std::is_same_v<How, Max> ? std::numeric_limits<T>::min()
                                      : std::numeric_limits<T>::max();
    } else {
      return How::template none<T>();
    }
  }
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_same_v<How, Product>) {
      return scalar::mul(x, y);
    } else if constexpr (std::is_same_v<How, Sum>) {
      return scalar::add(x, y);
    } else {
      return How()(x, y);
    }
  }
};

// A NaN beats all that is no NaN, the first of equals stays.
template <class T, bool greatest>
struct Best {
  T value = T(0);
  int at = -1;  // none yet

  bool replaced_by(T x) const {
    if (at < 0) {
      return true;
    }
    if (value != value) {
      return false;
    }
    return x != x || (greatest ? x > value : x < value);
  }
  void take(T x, int place) {
    if (replaced_by(x)) {
      value = x;
      at = place;
    }
  }
  // What another thread found, whose places are not all before or behind this one's.
  void join(T x, int place) {
    const bool equal = at >= 0 && (x == value || (x != x && value != value));
    if (place >= 0 && (equal ? place < at : replaced_by(x))) {
      value = x;
      at = place;
    }
  }
};

// The place of the best element that any thread of the block has. All must call it.
template <class T, bool greatest>
int best_of_block(Best<T, greatest> best) {
  MSTRAIN_SHARED(T, values, kMostWarps);
  MSTRAIN_SHARED(int, places, kMostWarps);
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const T value = __shfl_xor_sync(0xffffffffU, best.value, distance);
    const int place = __shfl_xor_sync(0xffffffffU, best.at, distance);
    best.join(value, place);
  }
  const int thread = static_cast<int>(threadIdx.x);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (thread % kWarp == 0) {
    values[thread / kWarp] = best.value;
    places[thread / kWarp] = best.at;
  }
  __syncthreads();
  for (int w = 0; w < warps; ++w) {
    best.join(T(values[w]), int(places[w]));
  }
  __syncthreads();
  return best.at;
}

// Whether x, at place i, comes before y, at place j: NaN comes last in either order, equals by their place.
template <bool descending, class T>
bool comes_before(T x, int i, T y, int j) {
  const bool x_is_nan = x != x, y_is_nan = y != y;
  if (x_is_nan || y_is_nan) {
    return x_is_nan == y_is_nan ? i < j : y_is_nan;
  }
  if (x == y) {
    return i < j;
  }
  return descending ? x > y : x < y;
}

}  // namespace mstrain::cuda
