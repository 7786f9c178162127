// max_pool{window, stride, padding}: x; max_pool_grad{same}: (x, g) -> dx.
// avg_pool{window, stride, padding}: x; avg_pool_grad{same, input_shape}: g -> dx, its transpose.
#include <limits>

#include "core/ops/build.h"
#include "core/ops/conv.h"
#include "core/ops/index.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Shape result_shape(const PoolSizes& n) { return {n.n, n.c, n.oh, n.ow}; }

void expect_floats(const TensorType& type) {
  if (!is_floating(type.dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(type.dtype)),
                     "convert it with cast()");
  }
}

void expect_result(const TensorType& g, const TensorType& expected) {
  if (!(g == expected)) {
    throw ShapeError(
        fmt::format("the cotangent is {}, the result {}", to_string(g), to_string(expected)));
  }
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  expect_floats(in[0]);
  return {{in[0].dtype, result_shape(pool_sizes(in[0].shape, attrs))}};
}

Types infer_max_grad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  expect_result(in[1], infer(in.first(1), attrs)[0]);
  return {in[0]};
}

Types infer_avg_grad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  expect_floats(in[0]);
  const Shape& shape = attrs.ints("input_shape");
  expect_result(in[0], {in[0].dtype, result_shape(pool_sizes(shape, attrs))});
  return {{in[0].dtype, shape}};
}

Attrs geometry(const Attrs& attrs) {
  Attrs result;
  for (const char* name : {"window", "stride", "padding"}) {
    result.set(name, *attrs.find(name));
  }
  return result;
}

// [kh kw, n, c, oh, ow]: element k of every window, with `value` where it lies in the padding.
Tensor windows(const Tensor& x, const Attrs& attrs, double value) {
  const PoolSizes n = pool_sizes(x.shape(), attrs);
  const Shape& padding = attrs.ints("padding");
  const Tensor padded =
      pad(x, {0, 0, padding[0], padding[2]}, {0, 0, padding[1], padding[3]}, value);
  Tensors taps;
  for (int64_t y = 0; y < n.kh; ++y) {
    for (int64_t z = 0; z < n.kw; ++z) {
      taps.push_back(
          slice(padded, {0, 0, y, z},
                {n.n, n.c, y + (n.oh - 1) * n.stride_y + 1, z + (n.ow - 1) * n.stride_x + 1},
                {1, 1, n.stride_y, n.stride_x}));
    }
  }
  return stack(taps, 0);
}

// What t holds where each window of x has its maximum: the tangent of max_pool, and the transpose
// of max_pool_grad.
Tensor at_maximum(const Tensor& x, const Tensor& t, const Attrs& attrs) {
  const Tensor place = argmax(windows(x, attrs, -std::numeric_limits<double>::infinity()), 0);
  return squeeze(take_along(windows(t, attrs, 0), expand_dims(place, 0), 0), 0);
}

Tensor max_grad(const Tensor& x, const Tensor& g, const Attrs& attrs);
Tensor avg(const Tensor& x, const Attrs& attrs);
Tensor avg_grad(const Tensor& g, const Shape& input_shape, const Attrs& attrs);

Tensors jvp_max(const Application& node, std::span<const Tensor> t) {
  return {at_maximum(node.inputs[0], t[0], node.attrs)};
}
Tensors vjp_max(const Application& node, std::span<const Tensor> ct) {
  return {max_grad(node.inputs[0], ct[0], node.attrs)};
}

// Where the maxima lie does not change with x.
Tensors jvp_max_grad(const Application& node, std::span<const Tensor> t) {
  return {t[1].defined() ? max_grad(node.inputs[0], t[1], node.attrs) : Tensor()};
}
Tensors vjp_max_grad(const Application& node, std::span<const Tensor> ct) {
  return {Tensor(), at_maximum(node.inputs[0], ct[0], node.attrs)};
}

Tensors jvp_linear(const Application& node, std::span<const Tensor> t) {
  return apply(node.op, t, node.attrs, kHere);
}
Tensors vjp_avg(const Application& node, std::span<const Tensor> ct) {
  return {avg_grad(ct[0], node.inputs[0].shape(), node.attrs)};
}
Tensors vjp_avg_grad(const Application& node, std::span<const Tensor> ct) {
  return {avg(ct[0], node.attrs)};
}

// Samples side by side in the first dim of images.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  Attrs wider = attrs;
  if (const Attr* shape = attrs.find("input_shape")) {
    Shape images = std::get<Shape>(*shape);
    images[0] *= size;
    wider.set("input_shape", images);
  }
  Tensors inputs = batch_all(in, batched, size);
  const int64_t n = inputs[0].dim(1);
  for (Tensor& input : inputs) {
    input = flatten(input, 0, 1);
  }
  const Tensor result = apply(op, inputs, wider, kHere)[0];
  Shape shape = result.shape().with_inserted(0, size);
  shape[1] = n;
  return {reshape(result, shape)};
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  const Shape& window = attrs.ints("window");
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = static_cast<double>(std::min(in.back().elements(), out[0].elements()) * window[0] *
                                   window[1]);
  return cost;
}

std::vector<Sample> samples_of(Dtype t, bool distinct) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& x, const Shape& window, const Shape& stride,
                       const Shape& padding) {
    result.push_back({{{{t, x}, -2, 2, distinct}},
                      {{"window", window}, {"stride", stride}, {"padding", padding}}});
  };
  add({1, 2, 4, 4}, {2, 2}, {2, 2}, {0, 0, 0, 0});
  add({2, 1, 5, 6}, {3, 2}, {1, 2}, {1, 1, 0, 1});
  add({1, 1, 7, 5}, {2, 3}, {3, 1}, {0, 1, 2, 0});
  add({1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0});
  add({0, 2, 3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0});
  return result;
}
std::vector<Sample> samples_max(Dtype t) { return samples_of(t, true); }
std::vector<Sample> samples_avg(Dtype t) { return samples_of(t, false); }

std::vector<Sample> samples_max_grad(Dtype t) {
  std::vector<Sample> result = samples_of(t, true);
  for (Sample& sample : result) {
    sample.inputs.push_back(
        {{t, result_shape(pool_sizes(sample.inputs[0].type.shape, sample.attrs))}});
  }
  return result;
}
std::vector<Sample> samples_avg_grad(Dtype t) {
  std::vector<Sample> result = samples_of(t, false);
  for (Sample& sample : result) {
    const Shape x = sample.inputs[0].type.shape;
    sample.inputs[0].type.shape = result_shape(pool_sizes(x, sample.attrs));
    sample.attrs.set("input_shape", x);
  }
  return result;
}

std::vector<Way> layout_avg_grad(const LayoutRequest& request) {
  std::vector<Way> ways = layout::leading<2>(request);
  for (Way& way : ways) {
    way.attrs.set("input_shape",
                  part_of(request.outputs[0], way.outputs[0], request.axis.size).shape);
  }
  return ways;
}

constexpr OpDef kDefs[] = {
    {.name = "max_pool",
     .kind = OpKind::kReduce,
     .infer = infer,
     .jvp = jvp_max,
     .vjp = vjp_max,
     .batch = batch,
     .cost = cost,
     .layout = layout::leading<2>,
     .samples = samples_max,
     .smooth = false},
    {.name = "max_pool_grad",
     .kind = OpKind::kReduce,
     .infer = infer_max_grad,
     .jvp = jvp_max_grad,
     .vjp = vjp_max_grad,
     .batch = batch,
     .cost = cost,
     .layout = layout::leading<2>,
     .samples = samples_max_grad,
     .smooth = false},
    {.name = "avg_pool",
     .kind = OpKind::kReduce,
     .infer = infer,
     .jvp = jvp_linear,
     .vjp = vjp_avg,
     .batch = batch,
     .cost = cost,
     .layout = layout::leading<2>,
     .samples = samples_avg},
    {.name = "avg_pool_grad",
     .kind = OpKind::kReduce,
     .infer = infer_avg_grad,
     .jvp = jvp_linear,
     .vjp = vjp_avg_grad,
     .batch = batch,
     .cost = cost,
     .layout = layout_avg_grad,
     .samples = samples_avg_grad},
};

Tensor max_grad(const Tensor& x, const Tensor& g, const Attrs& attrs) {
  return apply1(kDefs[1], {x, g}, attrs, kHere);
}
Tensor avg(const Tensor& x, const Attrs& attrs) {
  return apply1(kDefs[2], {x}, geometry(attrs), kHere);
}
Tensor avg_grad(const Tensor& g, const Shape& input_shape, const Attrs& attrs) {
  return apply1(kDefs[3], {g}, geometry(attrs).with("input_shape", input_shape), kHere);
}

Attrs attrs_of(const Pool2dOptions& options) {
  return {{"window", options.window}, {"stride", options.stride}, {"padding", options.padding}};
}

}  // namespace

std::span<const OpDef> pool_ops() { return kDefs; }

Tensor max_pool2d(const Arg& x, const Pool2dOptions& options) {
  return apply1(kDefs[0], {x.tensor()}, attrs_of(options), x.where());
}
Tensor avg_pool2d(const Arg& x, const Pool2dOptions& options) {
  return apply1(kDefs[2], {x.tensor()}, attrs_of(options), x.where());
}

}  // namespace mstrain
