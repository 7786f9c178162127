// Layers as functions: parameters are declared where they are used, in the folder `p` (core/tensor/params.h).
//
// Weights are "weight", decayed; biases "bias", not decayed.
#pragma once

#include <optional>

#include "core/nn/activation.h"
#include "core/nn/init.h"
#include "core/nn/weight.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/index.h"
#include "core/ops/norm.h"
#include "core/ops/random.h"

namespace mstrain {

struct LinearOptions {
  int in_dims = 1;  // how many of the last dims of x are summed over
  bool bias = true;
  bool out_first = false;           // weight is [out..., in...], as PyTorch stores it
  std::optional<Init> weight_init;  // fan_in_uniform
  std::optional<Init> bias_init;    // as the weight's where that is not given, else zeros
};

// x[..., in...] -> [..., out...], one matrix product. weight is [in..., out...], or with `out_first` [out..., in...]: logical
// dims, such as heads, stay apart. A LoraScope (core/nn/lora.h) may add an adapter.
Tensor linear(const Params& p, const Tensor& x, const Shape& out,
              const LinearOptions& options = {});

// ids[...] in [0, count) -> [..., width]. weight[count, width].
Tensor embedding(const Params& p, const Tensor& ids, int64_t count, int64_t width,
                 const Init& init = normal_init(1));

// Over the last dim n: weight[n], bias[n].
Tensor layer_norm(const Params& p, const Tensor& x, double eps = 1e-5);
// Over the last dim n: weight[n].
Tensor rms_norm(const Params& p, const Tensor& x, double eps = 1e-6);

// Zeroes elements with probability `rate` and scales the rest by 1 / (1 - rate). The identity where `rate` is 0 or the
// context is not training. Draws with the key of the RandomScope at the site p.path(): every layer has its own. The leading
// dim of x counts samples (or equally many rows of each), whose place in the whole batch decides what is drawn.
Tensor dropout(const Params& p, const Tensor& x, double rate);

// Linear layers of the given widths, "0", "1", …, with the activation between them.
Tensor mlp(const Params& p, Tensor x, const Shape& widths, Activation activation);

}  // namespace mstrain
