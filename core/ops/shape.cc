#include "core/ops/shape.h"

#include <numeric>

#include "core/ops/alias.h"
#include "core/ops/build.h"
#include "core/ops/reduce.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Shape shifted(const Shape& axes) {
  Shape result;
  for (int64_t axis : axes) {
    result.push_back(axis + 1);
  }
  return result;
}

Types infer_reshape(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& shape = attrs.ints("shape");
  if (shape.elements() != in[0].elements()) {
    throw ShapeError(fmt::format("{} has {} elements, {} has {}", to_string(in[0].shape),
                                 in[0].elements(), to_string(shape), shape.elements()));
  }
  return {{in[0].dtype, shape}};
}

Types infer_transpose(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& axes = attrs.ints("axes");
  std::vector<bool> seen(kMaxRank, false);
  Shape shape;
  for (int64_t axis : axes) {
    if (axes.rank() != in[0].shape.rank() || axis < 0 || axis >= axes.rank() ||
        seen[static_cast<size_t>(axis)]) {
      throw ShapeError(fmt::format("{} is not an order of the dims of {}", to_string(axes),
                                   to_string(in[0].shape)));
    }
    seen[static_cast<size_t>(axis)] = true;
    shape.push_back(in[0].shape[static_cast<int>(axis)]);
  }
  return {{in[0].dtype, shape}};
}

Types infer_broadcast(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& from = in[0].shape;
  const Shape& to = attrs.ints("shape");
  const int added = to.rank() - from.rank();
  bool fits = added >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) {
    fits = from[i] == to[i + added] || from[i] == 1;
  }
  if (!fits) {
    throw ShapeError(fmt::format("{} does not broadcast to {}", to_string(from), to_string(to)));
  }
  return {{in[0].dtype, to}};
}

Types infer_slice(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& x = in[0].shape;
  const Shape& start = attrs.ints("start");
  const Shape& stop = attrs.ints("stop");
  const Shape& step = attrs.ints("step");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (start.rank() != x.rank() || stop.rank() != x.rank() || step.rank() != x.rank() ||
        start[i] < 0 || stop[i] > x[i] || start[i] > stop[i] || step[i] < 1) {
      throw ShapeError(fmt::format("[{}, {}) in steps of {} does not lie inside {}",
                                   to_string(start), to_string(stop), to_string(step),
                                   to_string(x)));
    }
    shape.push_back((stop[i] - start[i] + step[i] - 1) / step[i]);
  }
  return {{in[0].dtype, shape}};
}

Types infer_pad(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& x = in[0].shape;
  const Shape& low = attrs.ints("low");
  const Shape& high = attrs.ints("high");
  const Shape& inner = attrs.ints("inner");
  if (low.rank() != x.rank() || high.rank() != x.rank() || inner.rank() != x.rank()) {
    throw ShapeError(fmt::format("padding {} {} {} does not have the rank of {}", to_string(low),
                                 to_string(high), to_string(inner), to_string(x)));
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (low[i] < 0 || high[i] < 0 || inner[i] < 0) {
      throw ShapeError(fmt::format("padding {} {} {} is negative", to_string(low), to_string(high),
                                   to_string(inner)));
    }
    shape.push_back(low[i] + x[i] + high[i] + std::max<int64_t>(x[i] - 1, 0) * inner[i]);
  }
  return {{in[0].dtype, shape}};
}

Types infer_concat(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.empty()) {
    throw ShapeError("needs at least one tensor");
  }
  const int axis = normal_axis(attrs.integer("axis"), in[0].shape.rank());
  TensorType type = in[0];
  type.shape[axis] = 0;
  for (const TensorType& part : in) {
    if (part.dtype != type.dtype || part.shape.rank() != type.shape.rank() ||
        !(part.shape.without(axis) == type.shape.without(axis))) {
      throw ShapeError(fmt::format("{} and {} differ in more than axis {}", to_string(in[0]),
                                   to_string(part), axis));
    }
    type.shape[axis] += part.shape[axis];
  }
  return {type};
}

Types infer_split(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const int axis = normal_axis(attrs.integer("axis"), in[0].shape.rank());
  const Shape& sizes = attrs.ints("sizes");
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != in[0].shape[axis]) {
    throw ShapeError(fmt::format("parts {} do not add up to dim {} of {}", to_string(sizes), axis,
                                 to_string(in[0].shape)));
  }
  Types types;
  for (int64_t size : sizes) {
    types.push_back(in[0]);
    types.back().shape[axis] = size;
  }
  return types;
}

Types infer_flip(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  for (int64_t axis : attrs.ints("axes")) {
    normal_axis(axis, in[0].shape.rank());
  }
  return {in[0]};
}

const OpDef& op_named(std::string_view name);

Tensor move(std::string_view name, const Tensor& x, Attrs attrs, const SourceLocation& where) {
  return apply1(op_named(name), {x}, std::move(attrs), where);
}

// Tangents of a linear operation with one input are the operation itself.
Tensors jvp_same(const Application& node, std::span<const Tensor> tangents) {
  return apply(node.op, tangents, node.attrs, kHere);
}

// Pads with zeros, where the primal padded with its value.
Tensors jvp_pad(const Application& node, std::span<const Tensor> tangents) {
  return apply(node.op, tangents, node.attrs.with("value", 0.0), kHere);
}

Tensors jvp_concat(const Application& node, std::span<const Tensor> tangents) {
  Tensors parts;
  for (size_t i = 0; i < tangents.size(); ++i) {
    parts.push_back(tangents[i] ? tangents[i] : zeros_like(node.inputs[i]));
  }
  return apply(node.op, parts, node.attrs, kHere);
}

Tensors vjp_reshape(const Application& node, std::span<const Tensor> ct) {
  return {reshape(ct[0], node.inputs[0].shape())};
}

Tensors vjp_transpose(const Application& node, std::span<const Tensor> ct) {
  const Shape& axes = node.attrs.ints("axes");
  Shape inverse = axes;
  for (int i = 0; i < axes.rank(); ++i) {
    inverse[static_cast<int>(axes[i])] = i;
  }
  return {transpose(ct[0], inverse)};
}

// What was repeated is summed.
Tensors vjp_broadcast(const Application& node, std::span<const Tensor> ct) {
  const Shape& from = node.inputs[0].shape();
  const int added = ct[0].rank() - from.rank();
  Shape axes;
  for (int i = 0; i < ct[0].rank(); ++i) {
    if (i < added || (from[i - added] == 1 && ct[0].dim(i) != 1)) {
      axes.push_back(i);
    }
  }
  return {reshape(axes.rank() == 0 ? ct[0] : sum(ct[0], axes), from)};
}

Tensors vjp_slice(const Application& node, std::span<const Tensor> ct) {
  const Shape& x = node.inputs[0].shape();
  const Shape& start = node.attrs.ints("start");
  const Shape& step = node.attrs.ints("step");
  Shape high = x;
  Shape inner = step;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t n = ct[0].dim(i);
    inner[i] = step[i] - 1;
    // An empty slice has no first element, so that everything is padding.
    high[i] = n == 0 ? x[i] - start[i] : x[i] - start[i] - ((n - 1) * step[i] + 1);
  }
  return {pad(ct[0], start, high, 0, inner)};
}

Tensors vjp_pad(const Application& node, std::span<const Tensor> ct) {
  const Shape& x = node.inputs[0].shape();
  const Shape& low = node.attrs.ints("low");
  const Shape& inner = node.attrs.ints("inner");
  Shape stop = low;
  Shape step = inner;
  for (int i = 0; i < x.rank(); ++i) {
    step[i] = inner[i] + 1;
    stop[i] = low[i] + (x[i] == 0 ? 0 : (x[i] - 1) * step[i] + 1);
  }
  return {slice(ct[0], low, stop, step)};
}

Tensors vjp_concat(const Application& node, std::span<const Tensor> ct) {
  const int axis = static_cast<int>(node.attrs.integer("axis"));
  Shape sizes;
  if (node.inputs.size() <= static_cast<size_t>(kMaxRank)) {
    for (const Tensor& input : node.inputs) {
      sizes.push_back(input.dim(axis));
    }
    return split(ct[0], sizes, axis);
  }
  Tensors parts;
  int64_t at = 0;
  for (const Tensor& input : node.inputs) {
    parts.push_back(slice(ct[0], axis, at, at + input.dim(axis)));
    at += input.dim(axis);
  }
  return parts;
}

Tensors vjp_split(const Application& node, std::span<const Tensor> ct) {
  Tensors parts;
  for (size_t i = 0; i < ct.size(); ++i) {
    parts.push_back(ct[i] ? ct[i] : zeros_like(node.outputs[i]));
  }
  return {concat(parts, static_cast<int>(node.attrs.integer("axis")))};
}

Tensors vjp_flip(const Application& node, std::span<const Tensor> ct) {
  return {flip(ct[0], node.attrs.ints("axes"))};
}

Tensors batch_reshape(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                      std::span<const bool>, int64_t size) {
  return {reshape(in[0], attrs.ints("shape").with_inserted(0, size))};
}

Tensors batch_transpose(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                        std::span<const bool>, int64_t) {
  return {transpose(in[0], shifted(attrs.ints("axes")).with_inserted(0, 0))};
}

Tensors batch_broadcast(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                        std::span<const bool>, int64_t size) {
  // Dims of size 1 stand in for the new leading dims, between the batch and the rest.
  const Shape& to = attrs.ints("shape");
  Shape from = in[0].shape();
  while (from.rank() < to.rank() + 1) {
    from = from.with_inserted(1, 1);
  }
  return {broadcast_to(reshape(in[0], from), to.with_inserted(0, size))};
}

Tensors batch_slice(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                    std::span<const bool>, int64_t size) {
  return {slice(in[0], attrs.ints("start").with_inserted(0, 0),
                attrs.ints("stop").with_inserted(0, size), attrs.ints("step").with_inserted(0, 1))};
}

Tensors batch_pad(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                  std::span<const bool>, int64_t) {
  return {pad(in[0], attrs.ints("low").with_inserted(0, 0), attrs.ints("high").with_inserted(0, 0),
              attrs.number("value"), attrs.ints("inner").with_inserted(0, 0))};
}

Tensors batch_axis(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool> batched, int64_t size) {
  return apply(op, batch_all(in, batched, size), attrs.with("axis", attrs.integer("axis") + 1),
               kHere);
}

Tensors batch_flip(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool>, int64_t) {
  return {flip(in[0], shifted(attrs.ints("axes")))};
}

Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return elementwise_cost(inputs, outputs, 0);
}

SampleInput of(Dtype dtype, const Shape& shape) { return {{dtype, shape}, -2, 2}; }

std::vector<Sample> samples_reshape(Dtype t) {
  return {{{of(t, {2, 6})}, {{"shape", Shape{3, 4}}}},
          {{of(t, {1})}, {{"shape", Shape{}}}},
          {{of(t, {0, 3})}, {{"shape", Shape{5, 0}}}}};
}
std::vector<Sample> samples_transpose(Dtype t) {
  return {{{of(t, {3, 5})}, {{"axes", Shape{1, 0}}}},
          {{of(t, {2, 3, 4, 5})}, {{"axes", Shape{0, 2, 1, 3}}}},
          {{of(t, {33, 65})}, {{"axes", Shape{1, 0}}}},
          {{of(t, {2, 0, 4})}, {{"axes", Shape{2, 0, 1}}}}};
}
std::vector<Sample> samples_broadcast(Dtype t) {
  return {{{of(t, {})}, {{"shape", Shape{3, 2}}}},
          {{of(t, {3, 1, 5})}, {{"shape", Shape{2, 3, 4, 5}}}},
          {{of(t, {1})}, {{"shape", Shape{0}}}}};
}
std::vector<Sample> samples_slice(Dtype t) {
  return {
      {{of(t, {7})}, {{"start", Shape{1}}, {"stop", Shape{6}}, {"step", Shape{2}}}},
      {{of(t, {4, 9})}, {{"start", Shape{0, 2}}, {"stop", Shape{3, 9}}, {"step", Shape{2, 3}}}},
      {{of(t, {4, 5})}, {{"start", Shape{2, 1}}, {"stop", Shape{2, 4}}, {"step", Shape{1, 1}}}}};
}
std::vector<Sample> samples_pad(Dtype t) {
  return {
      {{of(t, {3})}, {{"low", Shape{2}}, {"high", Shape{1}}, {"inner", Shape{0}}, {"value", 1.0}}},
      {{of(t, {2, 3})},
       {{"low", Shape{0, 1}}, {"high", Shape{1, 0}}, {"inner", Shape{2, 1}}, {"value", 0.0}}},
      {{of(t, {0, 2})},
       {{"low", Shape{1, 1}}, {"high", Shape{1, 0}}, {"inner", Shape{1, 0}}, {"value", 1.0}}}};
}
std::vector<Sample> samples_concat(Dtype t) {
  return {{{of(t, {2, 3}), of(t, {2, 1}), of(t, {2, 4})}, {{"axis", int64_t{1}}}},
          {{of(t, {2, 3}), of(t, {0, 3})}, {{"axis", int64_t{0}}}},
          {{of(t, {5})}, {{"axis", int64_t{0}}}}};
}
std::vector<Sample> samples_split(Dtype t) {
  return {{{of(t, {2, 9, 3})}, {{"axis", int64_t{1}}, {"sizes", Shape{4, 0, 5}}}},
          {{of(t, {6})}, {{"axis", int64_t{0}}, {"sizes", Shape{6}}}}};
}
std::vector<Sample> samples_flip(Dtype t) {
  return {{{of(t, {5})}, {{"axes", Shape{0}}}},
          {{of(t, {3, 4, 2})}, {{"axes", Shape{0, 2}}}},
          {{of(t, {3, 0})}, {{"axes", Shape{1}}}}};
}

Types infer_copy(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  return {in[0]};
}
Tensors vjp_copy(const Application&, std::span<const Tensor> ct) { return {ct[0]}; }
Tensors batch_copy(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool>, int64_t) {
  return apply(op, in, attrs, kHere);
}
std::vector<Sample> samples_copy(Dtype t) {
  return {{{of(t, {})}}, {{of(t, {3, 1025})}}, {{of(t, {0, 2})}}};
}

Attrs second_alone(const Attrs&, const Attrs& second) { return second; }
Attrs transpose_twice(const Attrs& first, const Attrs& second) {
  Shape axes;
  for (int64_t axis : second.ints("axes")) {
    axes.push_back(first.ints("axes")[static_cast<int>(axis)]);
  }
  return {{"axes", axes}};
}

struct Moves {
  AliasRule alias = nullptr;
  ComposeRule compose = nullptr;
  Order order = Order::kOther;
};

constexpr OpDef movement(std::string_view name, InferRule infer, JvpRule jvp, VjpRule vjp,
                         BatchRule batch, SampleRule samples, const Moves& moves = {}) {
  return {.name = name,
          .kind = OpKind::kMovement,
          .dtypes = DtypeClass::kAny,
          .infer = infer,
          .jvp = jvp,
          .vjp = vjp,
          .batch = batch,
          .cost = cost,
          .samples = samples,
          .alias = moves.alias,
          .compose = moves.compose,
          .order = moves.order};
}

constexpr OpDef kDefs[] = {
    movement("reshape", infer_reshape, jvp_same, vjp_reshape, batch_reshape, samples_reshape,
             {alias::reshape, second_alone, Order::kKept}),
    movement("transpose", infer_transpose, jvp_same, vjp_transpose, batch_transpose,
             samples_transpose, {alias::transpose, transpose_twice}),
    movement("broadcast", infer_broadcast, jvp_same, vjp_broadcast, batch_broadcast,
             samples_broadcast, {alias::broadcast, second_alone, Order::kRepeated}),
    movement("slice", infer_slice, jvp_same, vjp_slice, batch_slice, samples_slice, {alias::slice}),
    movement("pad", infer_pad, jvp_pad, vjp_pad, batch_pad, samples_pad),
    movement("concat", infer_concat, jvp_concat, vjp_concat, batch_axis, samples_concat,
             {alias::only}),
    movement("split", infer_split, jvp_same, vjp_split, batch_axis, samples_split, {alias::split}),
    movement("flip", infer_flip, jvp_same, vjp_flip, batch_flip, samples_flip, {alias::flip}),
    movement("copy", infer_copy, jvp_same, vjp_copy, batch_copy, samples_copy),
};

const OpDef& op_named(std::string_view name) {
  for (const OpDef& def : kDefs) {
    if (def.name == name) {
      return def;
    }
  }
  fail("no movement operation {}", name);
}

}  // namespace

std::span<const OpDef> shape_ops() { return kDefs; }

Tensor reshape(const Arg& arg, const Shape& shape) {
  const Tensor& x = arg.tensor();
  Shape full_shape = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      full_shape[i] = 1;
      const int64_t rest = full_shape.elements();
      check(rest != 0 && x.elements() % rest == 0 && rest > 0,
            "reshape: {} does not divide into {}, at {}", to_string(x.shape()), to_string(shape),
            to_string(arg.where()));
      full_shape[i] = x.elements() / rest;
      break;
    }
  }
  return full_shape == x.shape() ? x : move("reshape", x, {{"shape", full_shape}}, arg.where());
}

Tensor flatten(const Arg& arg, int first, int last) {
  const Tensor& x = arg.tensor();
  const int from = normal_axis(first, x.rank());
  const int to = normal_axis(last, x.rank());
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i > from && i <= to) {
      shape[shape.rank() - 1] *= x.dim(i);
    } else {
      shape.push_back(x.dim(i));
    }
  }
  return reshape(arg, shape);
}

Tensor transpose(const Arg& x, const Shape& axes) {
  Shape normal;
  bool same = true;
  for (int i = 0; i < axes.rank(); ++i) {
    normal.push_back(axes[i] < 0 ? axes[i] + x.tensor().rank() : axes[i]);
    same = same && normal[i] == i;
  }
  return same && axes.rank() == x.tensor().rank()
             ? x.tensor()
             : move("transpose", x.tensor(), {{"axes", normal}}, x.where());
}

Tensor transpose(const Arg& x) {
  const int rank = x.tensor().rank();
  check(rank >= 2, "transpose: {} has fewer than two dims, at {}", to_string(x.tensor().shape()),
        to_string(x.where()));
  return move_axis(x, rank - 1, rank - 2);
}

Tensor move_axis(const Arg& x, int from, int to) {
  const int rank = x.tensor().rank();
  const int source = normal_axis(from, rank);
  Shape rest;
  for (int i = 0; i < rank; ++i) {
    if (i != source) {
      rest.push_back(i);
    }
  }
  return transpose(x, rest.with_inserted(normal_axis(to, rank), source));
}

Tensor broadcast_to(const Arg& x, const Shape& shape) {
  return shape == x.tensor().shape() ? x.tensor()
                                     : move("broadcast", x.tensor(), {{"shape", shape}}, x.where());
}

Tensor expand_dims(const Arg& x, int axis) {
  const Shape& shape = x.tensor().shape();
  return reshape(x, shape.with_inserted(normal_axis(axis, shape.rank() + 1), 1));
}

Tensor squeeze(const Arg& x, int axis) {
  const Shape& shape = x.tensor().shape();
  const int at = normal_axis(axis, shape.rank());
  check(shape[at] == 1, "squeeze: dim {} of {} is not 1, at {}", at, to_string(shape),
        to_string(x.where()));
  return reshape(x, shape.without(at));
}

Tensor slice(const Arg& x, const Shape& start, const Shape& stop, const Shape& step) {
  return move("slice", x.tensor(), {{"start", start}, {"stop", stop}, {"step", step}}, x.where());
}

Tensor slice(const Arg& x, int axis, int64_t start, int64_t stop, int64_t step) {
  const Shape& shape = x.tensor().shape();
  const int at = normal_axis(axis, shape.rank());
  if (start == 0 && stop == shape[at] && step == 1) {
    return x.tensor();
  }
  Shape starts = Shape::filled(shape.rank(), 0);
  Shape stops = shape;
  Shape steps = Shape::filled(shape.rank(), 1);
  starts[at] = start;
  stops[at] = stop;
  steps[at] = step;
  return slice(x, starts, stops, steps);
}

Tensor select(const Arg& x, int axis, int64_t index) {
  const int at = normal_axis(axis, x.tensor().rank());
  return squeeze(slice(x, at, index, index + 1), at);
}

Tensor pad(const Arg& x, const Shape& low, const Shape& high, double value, const Shape& inner) {
  const Shape none = Shape::filled(x.tensor().rank(), 0);
  const Shape& between = inner.rank() == 0 ? none : inner;
  if (low == none && high == none && between == none) {
    return x.tensor();
  }
  return move("pad", x.tensor(),
              {{"low", low}, {"high", high}, {"inner", between}, {"value", value}}, x.where());
}

Tensor concat(std::span<const Tensor> parts, int axis, const SourceLocation& where) {
  check(!parts.empty(), "concat: no tensors were given, at {}", to_string(where));
  const int64_t at = normal_axis(axis, parts[0].rank());
  return parts.size() == 1 ? parts[0] : apply(op_named("concat"), parts, {{"axis", at}}, where)[0];
}

Tensor stack(std::span<const Tensor> parts, int axis, const SourceLocation& where) {
  Tensors expanded;
  for (const Tensor& part : parts) {
    expanded.push_back(expand_dims(Arg(part, where), axis));
  }
  return concat(expanded, axis < 0 && !parts.empty() ? axis + parts[0].rank() + 1 : axis, where);
}

Tensors split(const Arg& x, const Shape& sizes, int axis) {
  const int64_t at = normal_axis(axis, x.tensor().rank());
  return apply(op_named("split"), std::span(&x.tensor(), 1), {{"axis", at}, {"sizes", sizes}},
               x.where());
}

Tensors unstack(const Arg& x, int axis) {
  const int at = normal_axis(axis, x.tensor().rank());
  const int64_t count = x.tensor().dim(at);
  Tensors parts;
  if (count <= kMaxRank) {
    for (const Tensor& part : split(x, Shape::filled(static_cast<int>(count), 1), at)) {
      parts.push_back(squeeze(part, at));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      parts.push_back(select(x, at, i));
    }
  }
  return parts;
}

Tensor copy(const Arg& x) { return move("copy", x.tensor(), {}, x.where()); }
const OpDef& copy_op() { return op_named("copy"); }

Tensor flip(const Arg& x, const Shape& axes) {
  return move("flip", x.tensor(), {{"axes", axes}}, x.where());
}

}  // namespace mstrain
