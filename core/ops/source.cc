#include "core/ops/source.h"

#include "core/ir/error_place.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

Types infer(std::span<const TensorType> inputs, const Attrs& attrs) {
  expect_inputs(inputs, 0);
  expect_dims(attrs.ints("shape"));
  return {{attrs.dtype("dtype"), attrs.ints("shape")}};
}

Types infer_iota(std::span<const TensorType> inputs, const Attrs& attrs) {
  const Types types = infer(inputs, attrs);
  normal_axis(attrs.integer("axis"), types[0].shape.rank());
  return types;
}

// Nothing is batched, since there is no input.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor>, std::span<const bool>,
              int64_t size) {
  return {repeat_leading(apply(op, {}, attrs, SourceLocation::current())[0], size)};
}

Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return elementwise_cost(inputs, outputs, 0);
}

std::vector<Sample> samples_full(Dtype dtype) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{0, 3}, Shape{3, 1025}}) {
    samples.push_back(
        {{}, {{"value", dtype == Dtype::kBool ? 1.0 : 3.0}, {"dtype", dtype}, {"shape", shape}}});
  }
  return samples;
}

std::vector<Sample> samples_iota(Dtype dtype) {
  std::vector<Sample> samples;
  if (dtype != Dtype::kBool) {
    for (int64_t axis : {0, 1, 2}) {
      samples.push_back({{}, {{"axis", axis}, {"dtype", dtype}, {"shape", Shape{3, 5, 7}}}});
    }
  }
  return samples;
}

std::vector<Way> layout_full(const LayoutRequest& request) {
  std::vector<Way> ways;
  for (int i = 0; i < request.outputs[0].shape.rank(); ++i) {
    Way way = request.whole();
    way.outputs[0] = sharded(i);
    way.uneven = true;
    way.attrs.set("shape", part_of(request.outputs[0], sharded(i), request.axis.size).shape);
    ways.push_back(std::move(way));
  }
  if (request.attrs.find("value") != nullptr && request.attrs.number("value") == 0) {
    ways.push_back(request.whole());
    ways.back().outputs[0] = partial();
  }
  return ways;
}

// Along its own axis a part counts on from where it begins.
std::vector<Way> layout_iota(const LayoutRequest& request) {
  std::vector<Way> ways = layout_full(request);
  const auto axis = static_cast<size_t>(request.attrs.integer("axis"));
  ways[axis].program = [attrs = ways[axis].attrs, axis, &op = request.op](
                           std::span<const Tensor>, const MeshAxis& ranks) -> Tensors {
    const Tensor counted = apply(op, {}, attrs, SourceLocation::current())[0];
    const Tensor first = layout::first_of_part(counted.dim(static_cast<int>(axis)), ranks);
    return {counted + broadcast_to(cast(first, counted.dtype()), counted.shape())};
  };
  return ways;
}

constexpr OpDef kDefs[] = {{.name = "full",
                            .kind = OpKind::kSource,
                            .dtypes = DtypeClass::kAny,
                            .infer = infer,
                            .jvp = zero_derivative,
                            .batch = batch,
                            .cost = cost,
                            .layout = layout_full,
                            .samples = samples_full,
                            .repeats_number = true},
                           {.name = "iota",
                            .kind = OpKind::kSource,
                            .dtypes = DtypeClass::kAny,
                            .infer = infer_iota,
                            .jvp = zero_derivative,
                            .batch = batch,
                            .cost = cost,
                            .layout = layout_iota,
                            .samples = samples_iota}};

}  // namespace

std::span<const OpDef> source_ops() { return kDefs; }

// A constant is one scalar, repeated by strides.
Tensor filled(const TensorType& type, double value) {
  return apply1(kDefs[0], {}, {{"value", value}, {"dtype", type.dtype}, {"shape", type.shape}},
                SourceLocation::current());
}

Tensor full(const Shape& shape, double value, Dtype dtype, const SourceLocation& where) {
  expect_number_of(dtype, value, "full", where);
  try {
    expect_dims(shape);
  } catch (const ShapeError& error) {
    fail("full: {}, at {}", error.what(), to_string(where));
  }
  const WhereScope scope(where);
  const Tensor scalar =
      apply1(kDefs[0], {}, {{"value", value}, {"dtype", dtype}, {"shape", Shape{}}}, where);
  return broadcast_to(scalar, shape);
}

Tensor zeros(const TensorType& type) { return full(type.shape, 0, type.dtype); }
Tensor zeros_like(const Tensor& x) { return zeros(x.type()); }

Tensors or_zeros(std::span<const Tensor> tensors, std::span<const Tensor> like) {
  Tensors result(tensors.begin(), tensors.end());
  for (size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined()) {
      result[i] = zeros_like(like[i]);
    }
  }
  return result;
}

Tensor iota(const Shape& shape, int axis, Dtype dtype, const SourceLocation& where) {
  return apply1(kDefs[1], {}, {{"axis", int64_t{axis}}, {"dtype", dtype}, {"shape", shape}}, where);
}

}  // namespace mstrain
