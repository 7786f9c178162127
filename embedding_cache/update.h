// The update types: how one row learns from the sum of its gradients. Each is a small struct that the compiler inlines into
// the loop over rows; Cache::update takes one per segment of the table. To write your own, give it the same three members.
//
//   kKind         whose state layout it uses; must be the table's
//   at(step)      the struct prepared for one step (from 1): a copy with what depends on the step alone
//   operator()    weights w[n], state s[state_floats(kKind, n)], gradient g[n]; no two of them overlap
//
// Step sizes follow the papers and frameworks named at each. No two builds may differ in a bit: floats are added in a fixed order and
// the library is compiled without contraction to fused multiply-add; compile your own code with -ffp-contract=off likewise.
//
// l2, but for FTRL's, is that of a loss with ½ l2 |w|² for each row that a batch holds: once a batch, however often it holds it. Rows that it
// does not hold stay as they are; with OptimizerOptions::l2_of of the whole table they learn, too, as if by gradients of zero.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/row_rules.h"
#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

struct Sgd {
  static constexpr OptimizerKind kKind = OptimizerKind::kSgd;
  float lr = 0.01F;
  float l2 = 0;

  const Sgd& at(uint64_t) const { return *this; }
  [[gnu::always_inline]] inline void operator()(float* __restrict w, float*,
                                                const float* __restrict g, uint32_t n) const {
    for (uint32_t i = 0; i < n; ++i) {
      row_rules::sgd(lr, l2, w[i], g[i]);
    }
  }
};

// Duchi et al. 2011, as in PyTorch: the sum of squares, then lr * g / (root + eps).
struct Adagrad {
  static constexpr OptimizerKind kKind = OptimizerKind::kAdagrad;
  float lr = 0.01F;
  float eps = 1e-10F;
  float l2 = 0;

  const Adagrad& at(uint64_t) const { return *this; }
  [[gnu::always_inline]] inline void operator()(float* __restrict w, float* __restrict s,
                                                const float* __restrict g, uint32_t n) const {
    for (uint32_t i = 0; i < n; ++i) {
      row_rules::adagrad(lr, eps, l2, w[i], s[i], g[i]);
    }
  }
};

// One sum per row: the mean of the squares (Naumov et al. 2019, "DLRM"). The mean is added in eight lanes, then across them.
struct RowwiseAdagrad {
  static constexpr OptimizerKind kKind = OptimizerKind::kRowwiseAdagrad;
  float lr = 0.01F;
  float eps = 1e-10F;
  float l2 = 0;

  const RowwiseAdagrad& at(uint64_t) const { return *this; }
  [[gnu::always_inline]] inline void operator()(float* __restrict w, float* __restrict s,
                                                const float* __restrict g, uint32_t n) const {
    float lanes[8] = {};
    for (uint32_t i = 0; i < n; ++i) {
      lanes[i % 8] += row_rules::square(l2, w[i], g[i]);
    }
    const float sum = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                      ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    const float size = row_rules::rate_of_row(lr, eps, sum, static_cast<float>(n), s[0]);
    for (uint32_t i = 0; i < n; ++i) {
      row_rules::sgd(size, l2, w[i], g[i]);
    }
  }
};

// McMahan et al. 2013 with power -1/2, as in TensorFlow and MindSpore: state is the sums n, then the z.
struct Ftrl {
  static constexpr OptimizerKind kKind = OptimizerKind::kFtrl;
  float lr = 0.05F;
  float l1 = 0;
  float l2 = 0;

  const Ftrl& at(uint64_t) const { return *this; }
  [[gnu::always_inline]] inline void operator()(float* __restrict w, float* __restrict s,
                                                const float* __restrict g, uint32_t n) const {
    float* __restrict z = s + n;
    for (uint32_t i = 0; i < n; ++i) {
      row_rules::ftrl(lr, l1, l2, w[i], s[i], z[i], g[i]);
    }
  }
};

// Kingma & Ba 2015 on the rows of the batch only; the correction uses the global step, as PyTorch's SparseAdam does when it is
// fed every step. State is the first moments, then the second.
struct LazyAdam {
  static constexpr OptimizerKind kKind = OptimizerKind::kLazyAdam;
  float lr = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float eps = 1e-8F;
  float l2 = 0;

  struct Prepared {
    float size, beta1, beta2, eps, l2;
    [[gnu::always_inline]] inline void operator()(float* __restrict w, float* __restrict s,
                                                  const float* __restrict g, uint32_t n) const {
      float* __restrict v = s + n;
      for (uint32_t i = 0; i < n; ++i) {
        row_rules::lazy_adam(size, beta1, beta2, eps, l2, w[i], s[i], v[i], g[i]);
      }
    }
  };
  Prepared at(uint64_t step) const {
    const auto t = static_cast<double>(step);
    const double size =
        lr * std::sqrt(1 - std::pow(double{beta2}, t)) / (1 - std::pow(double{beta1}, t));
    return {static_cast<float>(size), beta1, beta2, eps, l2};
  }
};

// What changes from step to step in how a segment learns: the first argument of its rule (core/base/row_rules.h).
inline float rate_of(const OptimizerOptions& o, uint64_t step, float lr_scale) {
  switch (o.kind) {
    case OptimizerKind::kFtrl: return o.lr;
    case OptimizerKind::kLazyAdam:
      return LazyAdam{o.lr * lr_scale, o.beta1, o.beta2, o.eps, o.l2}.at(step).size;
    default: return o.lr * lr_scale;
  }
}

}  // namespace mstrain::embedding_cache
