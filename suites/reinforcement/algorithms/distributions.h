// Distributions over actions, as graphs. n: rows, a: actions, d: numbers of an action.
//
// Whatever is random comes in as `noise`, so that a draw is a function of whoever made it (core/base/rng.h), not of the batch.
#pragma once

#include "core/ir/arg.h"

namespace mstrain::reinforcement {

// One of a actions, by unnormalised log-probabilities.
struct Categorical {
  Tensor logits_na;

  // i32 [n], by the Gumbel-max trick. noise: uniform in (0, 1), [n, a].
  Tensor sample(const Tensor& noise_na) const;
  Tensor mode() const;                            // i32 [n]
  Tensor log_prob(const Tensor& action_n) const;  // [n]
  Tensor entropy() const;                         // [n]
};

// Independent normals.
struct Gaussian {
  Tensor mean_nd;
  Tensor log_std_nd;  // or [d]

  Tensor sample(const Tensor& noise_nd) const;     // noise: standard normal
  Tensor log_prob(const Tensor& action_nd) const;  // [n], the density of the whole action
  Tensor entropy() const;                          // [n]
};

// tanh of a normal, in (-1, 1): an action with its log density [n], exact also where tanh is nearly ±1, as
// log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)) (Haarnoja et al. 2018, "Soft actor-critic", appendix C).
struct SquashedSample {
  Tensor action_nd, log_prob_n;
};
SquashedSample sample_squashed(const Gaussian& before, const Tensor& noise_nd);

}  // namespace mstrain::reinforcement
