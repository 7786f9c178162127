// conv2d{stride, padding, dilation, groups}: (x, weight); conv2d_input_grad{…, input_shape}: (g,
// weight) -> dx; conv2d_weight_grad{…, weight_shape}: (x, g) -> dweight. Each is linear in both
// inputs, and each is a transpose of the others.
#include "core/ops/conv.h"

#include <array>

#include "core/ops/build.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

void expect_floats(std::span<const TensorType> in) {
  expect_inputs(in, 2);
  if (!is_floating(in[0].dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(in[0].dtype)),
                     "convert it with cast()");
  }
  if (in[0].dtype != in[1].dtype) {
    throw ShapeError(
        fmt::format("dtypes differ: {} and {}", name_of(in[0].dtype), name_of(in[1].dtype)),
        "convert one with cast()");
  }
}

Shape result_shape(const ConvSizes& n) { return {n.n, n.o, n.oh, n.ow}; }

void expect_result(const Shape& g, const ConvSizes& sizes) {
  if (!(g == result_shape(sizes))) {
    throw ShapeError(fmt::format("the cotangent is {}, the result {}", to_string(g),
                                 to_string(result_shape(sizes))));
  }
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_floats(in);
  return {{in[0].dtype, result_shape(conv_sizes(in[0].shape, in[1].shape, attrs))}};
}

Types infer_input_grad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_floats(in);
  const Shape& shape = attrs.ints("input_shape");
  expect_result(in[0].shape, conv_sizes(shape, in[1].shape, attrs));
  return {{in[0].dtype, shape}};
}

Types infer_weight_grad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_floats(in);
  const Shape& shape = attrs.ints("weight_shape");
  expect_result(in[1].shape, conv_sizes(in[0].shape, shape, attrs));
  return {{in[0].dtype, shape}};
}

// stride, padding, dilation and groups, which the three operations share.
Attrs geometry(const Attrs& attrs) {
  Attrs result;
  for (const char* name : {"stride", "padding", "dilation", "groups"}) {
    result.set(name, *attrs.find(name));
  }
  return result;
}

Tensor forward(const Tensor& x, const Tensor& weight, const Attrs& attrs);
Tensor input_grad(const Tensor& g, const Tensor& weight, const Shape& input_shape,
                  const Attrs& attrs);
Tensor weight_grad(const Tensor& x, const Tensor& g, const Shape& weight_shape, const Attrs& attrs);

Tensors jvp(const Application& node, std::span<const Tensor> t) {
  const auto term = [&](const Tensor& a, const Tensor& b) {
    return a.defined() && b.defined() ? apply1(node.op, {a, b}, node.attrs, kHere) : Tensor();
  };
  return {add_or_zero(term(t[0], node.inputs[1]), term(node.inputs[0], t[1]))};
}

Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  const Tensor& x = node.inputs[0];
  const Tensor& weight = node.inputs[1];
  return {input_grad(ct[0], weight, x.shape(), node.attrs),
          weight_grad(x, ct[0], weight.shape(), node.attrs)};
}

Tensors vjp_input_grad(const Application& node, std::span<const Tensor> ct) {
  const Tensor& g = node.inputs[0];
  const Tensor& weight = node.inputs[1];
  return {forward(ct[0], weight, node.attrs), weight_grad(ct[0], g, weight.shape(), node.attrs)};
}

Tensors vjp_weight_grad(const Application& node, std::span<const Tensor> ct) {
  const Tensor& x = node.inputs[0];
  const Tensor& g = node.inputs[1];
  return {input_grad(g, ct[0], x.shape(), node.attrs), forward(x, ct[0], node.attrs)};
}

// Samples side by side in the first dim of images.
Tensors batch_as_images(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                        int64_t size) {
  const Tensor result = apply1(op, {flatten(in[0], 0, 1), in[1]}, attrs, kHere);
  Shape shape = result.shape().with_inserted(0, size);
  shape[1] = in[0].dim(1);
  return {reshape(result, shape)};
}

// [size, n, c, h, w] as [n, size c, h, w], and back.
Tensor as_channels(const Tensor& x) { return flatten(move_axis(x, 0, 1), 1, 2); }
Tensor from_channels(const Tensor& x, int64_t size, int64_t channels) {
  return move_axis(reshape(x, {x.dim(0), size, channels, x.dim(2), x.dim(3)}), 1, 0);
}

// Groups cannot stand for no samples.
Tensors of_no_samples(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                      std::span<const bool> batched) {
  Types types;
  for (size_t i = 0; i < in.size(); ++i) {
    types.push_back(in[i].type());
    types[i].shape = batched[i] ? types[i].shape.without(0) : types[i].shape;
  }
  TensorType result = op.infer(types, attrs)[0];
  result.shape = result.shape.with_inserted(0, 0);
  return {zeros(result)};
}

Attrs grouped(const Attrs& attrs, int64_t size) {
  return attrs.with("groups", attrs.integer("groups") * size);
}

// Samples with a weight of their own become groups of channels.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  if (!batched[1]) {
    return batch_as_images(op, attrs, in, size);
  }
  if (size == 0) {
    return of_no_samples(op, attrs, in, batched);
  }
  const Tensors all = batch_all(in, batched, size);
  const Tensor result =
      apply1(op, {as_channels(all[0]), flatten(all[1], 0, 1)}, grouped(attrs, size), kHere);
  return {from_channels(result, size, all[1].dim(1))};
}

Tensors batch_input_grad(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                         std::span<const bool> batched, int64_t size) {
  if (size == 0) {
    return of_no_samples(op, attrs, in, batched);
  }
  Shape shape = attrs.ints("input_shape");
  const int64_t channels = shape[1];
  shape[batched[1] ? 1 : 0] *= size;
  const Attrs wider = attrs.with("input_shape", shape);
  if (!batched[1]) {
    return batch_as_images(op, wider, in, size);
  }
  const Tensors all = batch_all(in, batched, size);
  const Tensor result =
      apply1(op, {as_channels(all[0]), flatten(all[1], 0, 1)}, grouped(wider, size), kHere);
  return {from_channels(result, size, channels)};
}

Tensors batch_weight_grad(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                          std::span<const bool> batched, int64_t size) {
  if (size == 0) {
    return of_no_samples(op, attrs, in, batched);
  }
  const Tensors all = batch_all(in, batched, size);
  const Shape& weight = attrs.ints("weight_shape");
  Shape wider = weight;
  wider[0] *= size;
  const Tensor result = apply1(op, {as_channels(all[0]), as_channels(all[1])},
                               grouped(attrs, size).with("weight_shape", wider), kHere);
  return {reshape(result, weight.with_inserted(0, size))};
}

Cost cost_of(std::span<const TensorType> in, std::span<const TensorType> out, const ConvSizes& n) {
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = 2.0 * static_cast<double>(n.n * n.o * n.oh * n.ow) *
               static_cast<double>(n.c / n.groups * n.kh * n.kw);
  return cost;
}
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  return cost_of(in, out, conv_sizes(in[0].shape, in[1].shape, attrs));
}
Cost cost_input_grad(std::span<const TensorType> in, std::span<const TensorType> out,
                     const Attrs& attrs) {
  return cost_of(in, out, conv_sizes(attrs.ints("input_shape"), in[1].shape, attrs));
}
Cost cost_weight_grad(std::span<const TensorType> in, std::span<const TensorType> out,
                      const Attrs& attrs) {
  return cost_of(in, out, conv_sizes(in[0].shape, attrs.ints("weight_shape"), attrs));
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& x, const Shape& weight, const Shape& stride,
                       const Shape& padding, const Shape& dilation, int64_t groups) {
    result.push_back(
        {{{{t, x}}, {{t, weight}}},
         {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}}});
  };
  add({2, 3, 5, 6}, {4, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1);
  add({1, 2, 7, 5}, {3, 2, 3, 2}, {2, 1}, {0, 1, 1, 0}, {1, 2}, 1);
  add({2, 4, 6, 6}, {6, 2, 3, 3}, {2, 2}, {1, 1, 0, 0}, {1, 1}, 2);
  add({1, 3, 4, 4}, {3, 1, 2, 2}, {3, 3}, {0, 0, 0, 0}, {1, 1},
      3);  // the last row and column are not read
  add({1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1);
  add({2, 5, 3, 3}, {7, 5, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1);
  add({0, 2, 4, 4}, {3, 2, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1);
  return result;
}

std::vector<Sample> samples_input_grad(Dtype t) {
  std::vector<Sample> result = samples(t);
  for (Sample& sample : result) {
    const Shape x = sample.inputs[0].type.shape;
    sample.inputs[0].type.shape =
        result_shape(conv_sizes(x, sample.inputs[1].type.shape, sample.attrs));
    sample.attrs.set("input_shape", x);
  }
  return result;
}

std::vector<Sample> samples_weight_grad(Dtype t) {
  std::vector<Sample> result = samples(t);
  for (Sample& sample : result) {
    const Shape weight = sample.inputs[1].type.shape;
    sample.inputs[1].type.shape =
        result_shape(conv_sizes(sample.inputs[0].type.shape, weight, sample.attrs));
    sample.attrs.set("weight_shape", weight);
  }
  return result;
}

// Samples, or channels of results; those of inputs give terms of sums. Channels in groups stay together.
struct Shared {
  int a, b, out;
};
std::vector<Way> layout_of(const LayoutRequest& request, std::initializer_list<Shared> dims,
                           std::string_view shape) {
  std::vector<Way> ways;
  for (const uint32_t operand : {0b01U, 0b10U}) {
    ways.push_back(layout::sums(request, operand).at(0));
  }
  bool samples = true;
  for (const Shared& dim : dims) {
    if (!samples && request.attrs.integer("groups") != 1) {
      break;
    }
    samples = false;
    Way way = layout::by_dims(request, {dim.a, dim.b}, {dim.out});
    if (dim.out == layout::kWhole) {
      way.outputs[0] = partial();
    } else if (!shape.empty()) {
      way.attrs.set(shape, part_of(request.outputs[0], way.outputs[0], request.axis.size).shape);
    }
    ways.push_back(std::move(way));
  }
  return ways;
}
constexpr int kNone = layout::kWhole;
std::vector<Way> layout_forward(const LayoutRequest& request) {
  return layout_of(request, {{0, kNone, 0}, {kNone, 0, 1}, {1, 1, kNone}}, "");
}
std::vector<Way> layout_input_grad(const LayoutRequest& request) {
  return layout_of(request, {{0, kNone, 0}, {1, 0, kNone}, {kNone, 1, 1}}, "input_shape");
}
std::vector<Way> layout_weight_grad(const LayoutRequest& request) {
  return layout_of(request, {{0, 0, kNone}, {kNone, 1, 0}, {1, kNone, 1}}, "weight_shape");
}

constexpr OpDef kDefs[] = {
    {.name = "conv2d",
     .kind = OpKind::kContract,
     .infer = infer,
     .jvp = jvp,
     .vjp = vjp,
     .batch = batch,
     .cost = cost,
     .layout = layout_forward,
     .samples = samples,
     .precision = Precision::kNarrow},
    {.name = "conv2d_input_grad",
     .kind = OpKind::kContract,
     .infer = infer_input_grad,
     .jvp = jvp,
     .vjp = vjp_input_grad,
     .batch = batch_input_grad,
     .cost = cost_input_grad,
     .layout = layout_input_grad,
     .samples = samples_input_grad},
    {.name = "conv2d_weight_grad",
     .kind = OpKind::kContract,
     .infer = infer_weight_grad,
     .jvp = jvp,
     .vjp = vjp_weight_grad,
     .batch = batch_weight_grad,
     .cost = cost_weight_grad,
     .layout = layout_weight_grad,
     .samples = samples_weight_grad},
};

Tensor forward(const Tensor& x, const Tensor& weight, const Attrs& attrs) {
  return apply1(kDefs[0], {x, weight}, geometry(attrs), kHere);
}
Tensor input_grad(const Tensor& g, const Tensor& weight, const Shape& input_shape,
                  const Attrs& attrs) {
  return apply1(kDefs[1], {g, weight}, geometry(attrs).with("input_shape", input_shape), kHere);
}
Tensor weight_grad(const Tensor& x, const Tensor& g, const Shape& weight_shape,
                   const Attrs& attrs) {
  return apply1(kDefs[2], {x, g}, geometry(attrs).with("weight_shape", weight_shape), kHere);
}

}  // namespace

std::span<const OpDef> conv_ops() { return kDefs; }

Tensor conv2d(const Arg& x, const Arg& weight, const Conv2dOptions& options) {
  const Attrs attrs{{"stride", options.stride},
                    {"padding", options.padding},
                    {"dilation", options.dilation},
                    {"groups", options.groups}};
  return apply1(kDefs[0], {x.tensor(), weight.tensor()}, attrs, x.where());
}

}  // namespace mstrain
