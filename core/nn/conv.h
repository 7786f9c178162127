// Convolution as a layer. Pooling has no parameters: see core/ops/conv.h.
#pragma once

#include "core/nn/layers.h"
#include "core/ops/conv.h"

namespace mstrain {

struct ConvLayerOptions {
  Conv2dOptions conv;
  bool bias = true;
  std::optional<Init> weight_init;  // fan_in_uniform
};

// x[n, c, h, w] -> [n, channels, h', w']. weight[channels, c / groups, kh, kw], bias[channels].
Tensor conv2d(const Params& p, const Tensor& x_nchw, int64_t channels, const Shape& kernel,
              const ConvLayerOptions& options = {});

}  // namespace mstrain
