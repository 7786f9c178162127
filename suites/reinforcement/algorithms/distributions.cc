#include "suites/reinforcement/algorithms/distributions.h"

#include <cmath>
#include <numbers>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"

namespace mstrain::reinforcement {
namespace {

const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

}  // namespace

Tensor Categorical::sample(const Tensor& noise_na) const {
  return argmax(logits_na - log(-log(noise_na)), -1);
}

Tensor Categorical::mode() const { return argmax(logits_na, -1); }

Tensor Categorical::log_prob(const Tensor& action_n) const {
  return squeeze(take_along(log_softmax(logits_na), expand_dims(action_n, -1), -1), -1);
}

Tensor Categorical::entropy() const {
  const Tensor log_p_na = log_softmax(logits_na);
  return -sum(exp(log_p_na) * log_p_na, {-1});
}

Tensor Gaussian::sample(const Tensor& noise_nd) const {
  return mean_nd + exp(log_std_nd) * noise_nd;
}

Tensor Gaussian::log_prob(const Tensor& action_nd) const {
  const Tensor z_nd = (action_nd - mean_nd) * exp(-log_std_nd);
  return sum(-0.5 * square(z_nd) - log_std_nd - kHalfLogTwoPi, {-1});
}

Tensor Gaussian::entropy() const {
  return sum(zeros_like(mean_nd) + log_std_nd + (0.5 + kHalfLogTwoPi), {-1});
}

SquashedSample sample_squashed(const Gaussian& before, const Tensor& noise_nd) {
  const Tensor u_nd = before.sample(noise_nd);
  const Tensor log_slope_nd = 2 * (std::numbers::ln2 - u_nd - softplus(-2 * u_nd));
  return {tanh(u_nd), before.log_prob(u_nd) - sum(log_slope_nd, {-1})};
}

}  // namespace mstrain::reinforcement
