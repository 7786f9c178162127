// Convolution and pooling of images x[n, c, h, w]. Convolution does not mirror its
// weight [o, c / groups, kh, kw].
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> conv_ops();
std::span<const OpDef> pool_ops();

struct Conv2dOptions {
  Shape stride{1, 1};
  Shape padding{0, 0, 0, 0};  // top, bottom, left, right: zeros around x
  Shape dilation{1, 1};       // distance between the taps
  int64_t groups = 1;         // of channels that are convolved apart from each other
};
// [n, o, h', w'] with h' = floor((h + top + bottom - dilation (kh - 1) - 1) / stride) + 1.
Tensor conv2d(const Arg& x, const Arg& weight, const Conv2dOptions& options = {});

struct Pool2dOptions {
  Shape window{2, 2};
  Shape stride{2, 2};
  Shape padding{0, 0, 0, 0};  // smaller than the window
};
// The greatest element of each window; padding is never chosen. Of equal ones the first has the
// derivative.
Tensor max_pool2d(const Arg& x, const Pool2dOptions& options = {});
// The mean over each window, in which padding counts as zeros.
Tensor avg_pool2d(const Arg& x, const Pool2dOptions& options = {});

// Sizes of a convolution, for kernels and costs. The attributes are stride, padding, dilation and
// groups.
struct ConvSizes {
  int64_t n, c, h, w;  // x
  int64_t o, kh, kw;   // weight, whose second dim is c / groups
  int64_t oh, ow;      // result [n, o, oh, ow]
  int64_t groups;
  int64_t stride_y, stride_x, top, left, dilation_y, dilation_x;
};
// Throws ShapeError where they do not fit.
ConvSizes conv_sizes(const Shape& x, const Shape& weight, const Attrs& attrs);

// Sizes of a pooling with attributes window, stride and padding.
struct PoolSizes {
  int64_t n, c, h, w;
  int64_t kh, kw;
  int64_t oh, ow;
  int64_t stride_y, stride_x, top, left;
};
PoolSizes pool_sizes(const Shape& x, const Attrs& attrs);

}  // namespace mstrain
