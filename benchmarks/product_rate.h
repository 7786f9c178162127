// The rate at which oneDNN alone makes the matrix products of a plan: each distinct shape timed on dense operands of its
// own, by the faster of oneDNN's two ways (its matmul primitive, its gemm driver).
#pragma once

#include "core/compile/plan.h"

namespace mstrain {

struct ProductRate {
  double flops = 0;    // of the plan's products in a run, loops counted
  double seconds = 0;  // that oneDNN needs for them
  int shapes = 0;      // distinct ones
};

ProductRate product_rate(const Plan& plan, int threads);

// FLOPs of attention in a run, which oneDNN has no part in.
double attention_flops(const Plan& plan);

// Seconds for one product a[batch…, m, k] b[batch…, k, n], transposed in memory where the flags say so.
double product_seconds(int64_t batch, int64_t m, int64_t n, int64_t k, bool transpose_a,
                       bool transpose_b, int threads);

}  // namespace mstrain
