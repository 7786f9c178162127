#include "core/nn/gru.h"

#include <cmath>

#include "core/ops/elementwise.h"
#include "core/ops/slicing.h"

namespace mstrain {
namespace {

constexpr int64_t kGates = 3;

LinearOptions scaled_by(int64_t units) {
  return {.weight_init = normal_init(1 / std::sqrt(static_cast<double>(units))),
          .bias_init = zeros_init()};
}

}  // namespace

Tensor gru_inputs(const Params& p, const Tensor& x, int64_t units) {
  return linear(p / "input", x, {kGates * units}, scaled_by(x.dim(-1)));
}

Tensor gru_step(const Params& p, const Tensor& a_b3u, const Tensor& h_bu) {
  const int64_t units = h_bu.dim(1);
  const Tensor c_b3u = linear(p / "state", h_bu, {kGates * units}, scaled_by(units));
  const auto part = [&](const Tensor& all_b3u, int64_t gate) {
    return all_b3u[{kAll, Slice{gate * units, (gate + 1) * units}}];
  };
  const Tensor reset_bu = sigmoid(part(a_b3u, 0) + part(c_b3u, 0));
  const Tensor keep_bu = sigmoid(part(a_b3u, 1) + part(c_b3u, 1));
  const Tensor new_bu = tanh(part(a_b3u, 2) + reset_bu * part(c_b3u, 2));
  return new_bu + keep_bu * (h_bu - new_bu);
}

}  // namespace mstrain
