// Matrix products. bf16 and f16 accumulate in f32.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> matmul_ops();

struct MatmulOptions {
  bool transpose_a = false;  // a is [..., k, m]
  bool transpose_b = false;  // b is [..., n, k]
};

// a[..., m, k] b[..., k, n] -> [..., m, n]. Leading dims broadcast. A vector is a matrix of one row (a) or column (b),
// and that dim is dropped from the result. A b without leading dims is one product over all rows of a.
Tensor matmul(const Arg& a, const Arg& b, const MatmulOptions& options = {});

// What passes make of a product and the additions after it: matmul(a, b) + bias[n] in every row, + c[..., m, n].
extern const OpDef& kMatmulBias;     // a, b, bias
extern const OpDef& kMatmulAdd;      // a, b, c
extern const OpDef& kMatmulBiasAdd;  // a, b, bias, c
// activation(matmul(a, b) + bias); the attribute `activation` names an elementwise operation of kProductActivations.
extern const OpDef& kMatmulBiasActivation;  // a, b, bias
inline constexpr std::string_view kProductActivations[] = {"gelu", "gelu_tanh", "relu", "silu"};

}  // namespace mstrain
