#include "core/ops/shape.h"

#include <algorithm>

#include "core/ops/alias.h"
#include "core/ops/build.h"
#include "core/ops/samples.h"
#include "core/ops/shape_rules.h"

namespace mstrain {
namespace {

using namespace shape_rules;

const OpDef& op_named(std::string_view name);

Tensor move(std::string_view name, const Tensor& x, Attrs attrs, const SourceLocation& where) {
  return apply1(op_named(name), {x}, std::move(attrs), where);
}

Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return elementwise_cost(inputs, outputs, 0);
}

Attrs second_alone(const Attrs&, const Attrs& second) { return second; }
Attrs transpose_twice(const Attrs& first, const Attrs& second) {
  Shape axes;
  for (int64_t axis : second.ints("axes")) {
    axes.push_back(first.ints("axes")[static_cast<int>(axis)]);
  }
  return {{"axes", axes}};
}

// Of many tensors, in two levels, where a kernel takes fewer. Nothing else is left to do otherwise.
Tensors concat_of_concats(const Attrs& attrs, std::span<const Tensor> in) {
  constexpr size_t kAtOnce = 64;
  if (in.size() <= kAtOnce) {
    return {};
  }
  const int axis = static_cast<int>(attrs.integer("axis"));
  Tensors parts;
  for (; !in.empty(); in = in.subspan(std::min(kAtOnce, in.size()))) {
    parts.push_back(concat(in.first(std::min(kAtOnce, in.size())), axis));
  }
  return {concat(parts, axis)};
}

struct Moves {
  AliasRule alias = nullptr;
  ComposeRule compose = nullptr;
  Order order = Order::kOther;
  Decomposition decompose = nullptr;
};

constexpr OpDef movement(std::string_view name, InferRule infer, JvpRule jvp, VjpRule vjp,
                         BatchRule batch, LayoutRule layout, SampleRule samples,
                         const Moves& moves = {}) {
  return {.name = name,
          .kind = OpKind::kMovement,
          .dtypes = DtypeClass::kAny,
          .infer = infer,
          .jvp = jvp,
          .vjp = vjp,
          .batch = batch,
          .decompose = moves.decompose,
          .cost = cost,
          .layout = layout,
          .samples = samples,
          .alias = moves.alias,
          .compose = moves.compose,
          .order = moves.order};
}

constexpr OpDef kDefs[] = {
    movement("reshape", infer_reshape, jvp_same, vjp_reshape, batch_reshape, layout_reshape,
             samples::reshape, {alias::reshape, second_alone, Order::kKept}),
    movement("transpose", infer_transpose, jvp_same, vjp_transpose, batch_transpose,
             layout_transpose, samples::transpose, {alias::transpose, transpose_twice}),
    movement("broadcast", infer_broadcast, jvp_same, vjp_broadcast, batch_broadcast,
             layout_broadcast, samples::broadcast,
             {alias::broadcast, second_alone, Order::kRepeated}),
    movement("slice", infer_slice, jvp_same, vjp_slice, batch_slice, layout_slice, samples::slice,
             {alias::slice}),
    movement("pad", infer_pad, jvp_pad, vjp_pad, batch_pad, layout_pad, samples::pad),
    movement("concat", infer_concat, jvp_concat, vjp_concat, batch_axis, layout_beside_axis,
             samples::concat, {.alias = alias::only, .decompose = concat_of_concats}),
    movement("split", infer_split, jvp_same, vjp_split, batch_axis, layout_beside_axis,
             samples::split, {alias::split}),
    movement("flip", infer_flip, jvp_same, vjp_flip, batch_flip, layout_flip, samples::flip,
             {alias::flip}),
    movement("copy", infer_copy, jvp_same, vjp_copy, batch_copy, layout_copy, samples::copy),
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
