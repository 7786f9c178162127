// What the tests of transforms share: tensors from fixed seeds, comparisons, and a function run in both modes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/rng.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "tests/core/base/message_of.h"

namespace mstrain {

// f64 in [low, high), the same for equal seeds.
inline Tensor random_tensor(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (double& value : values) {
    value = rng.uniform(low, high);
  }
  return tensor<double>(values, shape);
}

inline Tensor f64(double value) { return scalar(value, Dtype::kF64); }
inline Tensor f64(std::initializer_list<double> values) { return vector(values, Dtype::kF64); }

// Equal types, and elements that differ by at most `tolerance` relative to max(1, |expected|); infinities and NaN alike.
inline void expect_near(const Tensor& actual, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(to_string(actual.type()), to_string(expected.type()));
  const std::vector<double> a = to_doubles(actual);
  const std::vector<double> b = to_doubles(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(b[i])) {
      ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << "at element " << i;
    } else {
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
          << a[i] << " and " << b[i] << " at element " << i;
    }
  }
}

// Equal types and equal numbers, NaN among them.
inline void expect_equal(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(to_string(actual.type()), to_string(expected.type()));
  const std::vector<double> a = to_doubles(actual);
  const std::vector<double> b = to_doubles(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << a[i] << " and " << b[i] << " at element " << i;
  }
}

// f(x…) in eager mode, after checking that the unoptimised graph gives the same bits and the optimised one the same
// numbers up to rounding in another order.
template <class F, class... X>
auto in_both_modes(const F& f, const X&... x) {
  const auto eager = f(x...);
  const Tensors expected = flatten_tree(eager);
  const Tensors exact = flatten_tree(jit(f, {.level = 0})(x...));
  const Tensors fast = flatten_tree(jit(f)(x...));
  EXPECT_EQ(exact.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_equal(exact[i], expected[i]);
    expect_near(fast[i], expected[i], 1e-11);
  }
  return eager;
}

inline double dot(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = to_doubles(a);
  const std::vector<double> y = to_doubles(b);
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    total += x[i] * y[i];
  }
  return total;
}

}  // namespace mstrain
