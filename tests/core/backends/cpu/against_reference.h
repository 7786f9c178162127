// What the tests of kernels share: inputs from a seed, and the cpu backend beside the reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/rng.h"
#include "core/ir/backend.h"
#include "core/ops/build.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"

namespace mstrain {

inline Tensor random(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) {
    value = static_cast<float>(rng.uniform(low, high));
  }
  return tensor<float>(values, shape);
}

inline Tensor random_ids(const Shape& shape, uint64_t limit, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> values(static_cast<size_t>(shape.elements()));
  for (int32_t& value : values) {
    value = static_cast<int32_t>(rng.below(limit));
  }
  return tensor<int32_t>(values, shape);
}

inline Tensors run(const char* op, const Tensors& inputs, const Attrs& attrs,
                   const Backend* backend, int threads = 1) {
  Context context;
  context.backend = backend;
  context.threads = threads;
  const ContextScope scope(context);
  return apply(*find_op(op), inputs, attrs, SourceLocation::current());
}

inline void expect_near(const Tensor& expected, const Tensor& actual, double tolerance,
                        const std::string& what) {
  const std::vector<double> x = to_doubles(expected);
  const std::vector<double> y = to_doubles(actual);
  ASSERT_EQ(x.size(), y.size());
  double scale = 0.1;  // results that cancel to nothing
  for (double value : x) {
    scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) {
      ASSERT_NEAR(x[i], y[i], tolerance * (scale + std::abs(x[i]))) << what << " at " << i;
    }
  }
}

// The cpu backend with 1, 2 and 3 threads is near the reference, and with one thread count the same twice.
inline void expect_right(const char* op, const Tensors& inputs, const Attrs& attrs = {},
                         double tolerance = 2e-6) {
  const Tensors expected = run(op, inputs, attrs, backend_named("reference"));
  for (int threads : {1, 2, 3}) {
    const Tensors actual = run(op, inputs, attrs, backend_named("cpu"), threads);
    const Tensors again = run(op, inputs, attrs, backend_named("cpu"), threads);
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_near(expected[i], actual[i], tolerance,
                  fmt::format("{} output {}, {} threads", op, i, threads));
      EXPECT_EQ(to_doubles(actual[i]), to_doubles(again[i])) << op << " differs between two runs";
    }
  }
}

}  // namespace mstrain
