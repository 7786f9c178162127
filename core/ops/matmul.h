// Matrix products, written for people: each is one dot_general (core/ops/dot_general.h).
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

struct MatmulOptions {
  bool transpose_a = false;  // a is [..., k, m]
  bool transpose_b = false;  // b is [..., n, k]
};

// a[..., m, k] b[..., k, n] -> [..., m, n]. Leading dims broadcast. A vector is a matrix of one row (a) or column (b),
// and that dim is dropped from the result.
Tensor matmul(const Arg& a, const Arg& b, const MatmulOptions& options = {});

}  // namespace mstrain
