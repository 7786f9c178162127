// Which sizes of images, windows and weights fit together.
#include "core/ops/conv.h"

namespace mstrain {
namespace {

// Bounds that keep every size far from overflow.
constexpr int64_t kMaxExtent = int64_t{1} << 31;

void expect_ints(const Attrs& attrs, std::string_view name, int count, int64_t least) {
  const Shape& values = attrs.ints(name);
  bool fits = values.rank() == count;
  for (int64_t value : values) {
    fits = fits && value >= least && value < kMaxExtent;
  }
  if (!fits) {
    throw ShapeError(fmt::format("{} is {}, not {} numbers of at least {}", name, to_string(values),
                                 count, least));
  }
}

// How often a window of `extent` fits into `size` elements.
int64_t positions(int64_t size, int64_t extent, int64_t stride) {
  if (size >= kMaxExtent || extent > size) {
    throw ShapeError(
        fmt::format("a window of {} does not fit into {} elements with padding", extent, size),
        "the input is too small, or needs padding");
  }
  return (size - extent) / stride + 1;
}

}  // namespace

ConvSizes conv_sizes(const Shape& x, const Shape& weight, const Attrs& attrs) {
  expect_ints(attrs, "stride", 2, 1);
  expect_ints(attrs, "padding", 4, 0);
  expect_ints(attrs, "dilation", 2, 1);
  const Shape& stride = attrs.ints("stride");
  const Shape& padding = attrs.ints("padding");
  const Shape& dilation = attrs.ints("dilation");
  const int64_t groups = attrs.integer("groups");
  if (x.rank() != 4 || weight.rank() != 4) {
    throw ShapeError(
        fmt::format("image {} or weight {} does not have 4 dims", to_string(x), to_string(weight)),
        "images are [n, c, h, w]");
  }
  if (groups < 1 || x[1] % groups != 0 || weight[0] % groups != 0 || x[1] / groups != weight[1]) {
    throw ShapeError(fmt::format("{} channels in {} groups do not fit a weight of {}", x[1], groups,
                                 to_string(weight)),
                     "the weight is [o, c / groups, kh, kw]");
  }
  if (weight[2] < 1 || weight[3] < 1 || weight[2] >= kMaxExtent || weight[3] >= kMaxExtent) {
    throw ShapeError(fmt::format("weight {} has no taps", to_string(weight)));
  }
  return {
      .n = x[0],
      .c = x[1],
      .h = x[2],
      .w = x[3],
      .o = weight[0],
      .kh = weight[2],
      .kw = weight[3],
      .oh = positions(x[2] + padding[0] + padding[1], dilation[0] * (weight[2] - 1) + 1, stride[0]),
      .ow = positions(x[3] + padding[2] + padding[3], dilation[1] * (weight[3] - 1) + 1, stride[1]),
      .groups = groups,
      .stride_y = stride[0],
      .stride_x = stride[1],
      .top = padding[0],
      .left = padding[2],
      .dilation_y = dilation[0],
      .dilation_x = dilation[1]};
}

PoolSizes pool_sizes(const Shape& x, const Attrs& attrs) {
  expect_ints(attrs, "window", 2, 1);
  expect_ints(attrs, "stride", 2, 1);
  expect_ints(attrs, "padding", 4, 0);
  const Shape& window = attrs.ints("window");
  const Shape& stride = attrs.ints("stride");
  const Shape& padding = attrs.ints("padding");
  if (x.rank() != 4 || x[2] < 1 || x[3] < 1) {
    throw ShapeError(fmt::format("{} holds no images", to_string(x)), "images are [n, c, h, w]");
  }
  for (int i = 0; i < 4; ++i) {
    if (padding[i] >= window[i / 2]) {
      throw ShapeError(fmt::format("padding {} is not smaller than the window {}",
                                   to_string(padding), to_string(window)));
    }
  }
  return {.n = x[0],
          .c = x[1],
          .h = x[2],
          .w = x[3],
          .kh = window[0],
          .kw = window[1],
          .oh = positions(x[2] + padding[0] + padding[1], window[0], stride[0]),
          .ow = positions(x[3] + padding[2] + padding[3], window[1], stride[1]),
          .stride_y = stride[0],
          .stride_x = stride[1],
          .top = padding[0],
          .left = padding[2]};
}

}  // namespace mstrain
