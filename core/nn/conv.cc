#include "core/nn/conv.h"

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {

Tensor conv2d(const Params& p, const Tensor& x_nchw, int64_t channels, const Shape& kernel,
              const ConvLayerOptions& options) {
  const NameScope scope = NameScope::absolute(p.path());
  check(x_nchw.rank() == 4 && kernel.rank() == 2 && options.conv.groups > 0 &&
            x_nchw.dim(1) % options.conv.groups == 0,
        "{}: an input {} does not fit a kernel {} in {} groups", p.path(),
        to_string(x_nchw.shape()), to_string(kernel), options.conv.groups);
  const int64_t group = x_nchw.dim(1) / options.conv.groups;
  const Init standard = fan_in_uniform(group * kernel.elements());
  const Tensor weight = p.get("weight", {channels, group, kernel[0], kernel[1]},
                              options.weight_init.value_or(standard));
  Tensor y = conv2d(x_nchw, weight, options.conv);
  if (!options.bias) {
    return y;
  }
  const Init bias_init = options.weight_init ? zeros_init() : standard;
  return y + reshape(p.get("bias", {channels}, bias_init, false), {channels, 1, 1});
}

}  // namespace mstrain
