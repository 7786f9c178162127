// What the tests of operations share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <limits>

#include "core/base/rng.h"
#include "core/ir/backend.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "tests/core/base/message_of.h"

namespace mstrain {

// Puts back the thread's floating-point mode: execution flushes denormal numbers, which other tests
// look at.
class KeepsFloatingMode {
 public:
  KeepsFloatingMode() { std::fegetenv(&mode_); }
  ~KeepsFloatingMode() { std::fesetenv(&mode_); }
  KeepsFloatingMode(const KeepsFloatingMode&) = delete;
  KeepsFloatingMode& operator=(const KeepsFloatingMode&) = delete;

 private:
  std::fenv_t mode_;
};

// Runs on the oracle.
class OnReference : public ::testing::Test {
 protected:
  KeepsFloatingMode mode_;
  Context context_{.backend = backend_named("reference")};
  ContextScope scope_{context_};
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline Tensor f64(std::initializer_list<double> values, const Shape& shape) {
  return reshape(vector(values, Dtype::kF64), shape);
}
inline Tensor ids(std::initializer_list<double> values) { return vector(values, Dtype::kI32); }

// f64 in [-1, 1), the same for equal seeds.
inline Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (double& value : values) {
    value = rng.uniform(-1, 1);
  }
  return tensor<double>(values, shape);
}

inline double greatest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(to_string(a.type()), to_string(b.type()));
  return a.elements() == 0 ? 0 : item(max(abs(a - b)));
}

}  // namespace mstrain
