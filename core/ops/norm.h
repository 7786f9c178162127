// Normalisation of rows: composites over the last axis n > 0. weight[n] and bias[n] have the dtype
// of x; mean and variance are formed in f32 (f64 for f64).
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> norm_ops();

// (x - mean) / sqrt(variance + eps) * weight + bias (Ba, Kiros & Hinton 2016).
Tensor layer_norm(const Arg& x, const Arg& weight, const Arg& bias, double eps = 1e-5);
// x / sqrt(mean of squares + eps) * weight (Zhang & Sennrich 2019).
Tensor rms_norm(const Arg& x, const Arg& weight, double eps = 1e-6);

}  // namespace mstrain
