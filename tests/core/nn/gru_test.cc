#include "core/nn/gru.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/mstrain.h"

namespace mstrain {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Gru, IsItsFormula) {
  constexpr int64_t kRows = 3, kInputs = 4, kUnits = 5;
  const auto next = [](const Params& p, const Tensor& x, const Tensor& h) {
    return gru_step(p, gru_inputs(p, x, kUnits), h);
  };
  Params p = init_params(
      declare_params([&](const Params& params) {
        next(params, zeros({Dtype::kF32, {1, kInputs}}), zeros({Dtype::kF32, {1, kUnits}}));
      }),
      7);
  for (const char* name : {"input.bias", "state.bias"}) {
    p.set(name, normal(rng_key(name[0]), {3 * kUnits}));
  }
  const Tensor x = normal(rng_key(1), {kRows, kInputs});
  const Tensor h = normal(rng_key(2), {kRows, kUnits});
  const auto affine = [&](const std::string& layer, const std::vector<double>& in, int64_t row,
                          int64_t out) {
    const std::vector<double> weight = to_doubles(*p.find(layer + ".weight"));
    double sum = to_doubles(*p.find(layer + ".bias"))[static_cast<size_t>(out)];
    const auto width = static_cast<int64_t>(in.size()) / kRows;
    for (int64_t i = 0; i < width; ++i) {
      sum += in[static_cast<size_t>(row * width + i)] *
             weight[static_cast<size_t>(i * 3 * kUnits + out)];
    }
    return sum;
  };
  const std::vector<double> xs = to_doubles(x), hs = to_doubles(h),
                            found = to_doubles(next(p, x, h));
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t u = 0; u < kUnits; ++u) {
      const auto a = [&](int64_t gate) { return affine("input", xs, row, gate * kUnits + u); };
      const auto c = [&](int64_t gate) { return affine("state", hs, row, gate * kUnits + u); };
      const double r = sigmoid_of(a(0) + c(0));
      const double z = sigmoid_of(a(1) + c(1));
      const double n = std::tanh(a(2) + r * c(2));
      const auto at = static_cast<size_t>(row * kUnits + u);
      EXPECT_NEAR(found[at], (1 - z) * n + z * hs[at], 2e-6) << row << " " << u;
    }
  }
}

}  // namespace
}  // namespace mstrain
