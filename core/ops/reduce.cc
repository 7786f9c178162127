#include "core/ops/reduce.h"

#include <limits>
#include <optional>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Shape without(const Shape& shape, const Shape& axes) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
      result.push_back(shape[i]);
    }
  }
  return result;
}

// A reduced value with its dims of size 1 back, so that it broadcasts against the input.
Tensor with_dims(const Tensor& reduced, const Shape& full_shape, const Shape& axes) {
  Shape shape = full_shape;
  for (int64_t axis : axes) {
    shape[static_cast<int>(axis)] = 1;
  }
  return reshape(reduced, shape);
}

Types infer_sum(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& axes = attrs.ints("axes");
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (normal_axis(axis, in[0].shape.rank()) <= previous) {
      throw ShapeError(fmt::format("axes {} are not ascending", to_string(axes)));
    }
    previous = axis;
  }
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  return {{in[0].dtype, without(in[0].shape, axes)}};
}

// max and min of nothing do not exist.
Types infer_extremum(std::span<const TensorType> in, const Attrs& attrs) {
  const Types types = infer_sum(in, attrs);
  if (in[0].elements() == 0 && types[0].elements() != 0) {
    throw ShapeError(fmt::format("reduces an empty dim of {}", to_string(in[0].shape)));
  }
  return types;
}

Types infer_arg(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const int axis = normal_axis(attrs.integer("axis"), in[0].shape.rank());
  if (in[0].shape[axis] == 0) {
    throw ShapeError(fmt::format("dim {} of {} is empty", axis, to_string(in[0].shape)));
  }
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  return {{Dtype::kI32, in[0].shape.without(axis)}};
}

Types infer_cumsum(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  normal_axis(attrs.integer("axis"), in[0].shape.rank());
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  return {in[0]};
}

Types infer_squares(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 1);
  if (!is_floating(in[0].dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(in[0].dtype)),
                     "convert it with cast()");
  }
  return {{in[0].dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32, {}}};
}

Tensors jvp_same(const Application& node, std::span<const Tensor> tangents) {
  return apply(node.op, tangents, node.attrs, kHere);
}

Tensors vjp_sum(const Application& node, std::span<const Tensor> ct) {
  const Shape& shape = node.inputs[0].shape();
  return {broadcast_to(with_dims(ct[0], shape, node.attrs.ints("axes")), shape)};
}

Tensors jvp_extremum(const Application& node, std::span<const Tensor> t) {
  const Tensor& x = node.inputs[0];
  const Shape& axes = node.attrs.ints("axes");
  // Short types count no further than to 65,504, or exactly to 256.
  const Tensor chosen =
      cast(equal(x, with_dims(node.outputs[0], x.shape(), axes)), accumulation_dtype(x.dtype()));
  return {cast(sum(widened(t[0]) * chosen, axes) / sum(chosen, axes), t[0].dtype())};
}

// For each element the product of the others along `axis`: of those before it and those after it.
Tensor product_of_others(const Tensor& x, int axis) {
  const int64_t n = x.dim(axis);
  Shape edge = x.shape();
  edge[axis] = std::min<int64_t>(n, 1);
  const Tensor one = full(edge, 1, x.dtype());
  if (n <= 1) {
    return one;
  }
  const Tensor before = cumprod(slice(x, axis, 0, n - 1), axis);
  const Tensor after = cumprod(slice(x, axis, 1, n), axis, true);
  return concat({one, before}, axis) * concat({after, one}, axis);
}

// Each tangent times the product of the other elements. Nothing is divided, so that derivatives of every order are right
// where elements are 0.
Tensors jvp_prod(const Application& node, std::span<const Tensor> t) {
  const Shape& axes = node.attrs.ints("axes");
  Tensor products = widened(node.inputs[0]);  // over the axes so far
  Tensor terms = widened(t[0]);
  for (int i = 0; i < axes.rank(); ++i) {
    products = i > 0 ? prod(products, {axes[i - 1]}, true) : products;
    terms = terms * product_of_others(products, static_cast<int>(axes[i]));
  }
  return {cast(sum(terms, axes), t[0].dtype())};
}

Tensors vjp_cumsum(const Application& node, std::span<const Tensor> ct) {
  return {cumsum(ct[0], static_cast<int>(node.attrs.integer("axis")), !node.attrs.flag("reverse"))};
}

Tensors jvp_squares(const Application& node, std::span<const Tensor> t) {
  const Tensor& x = node.inputs[0];
  const Dtype wide = node.outputs[0].dtype();
  return {sum(2 * cast(x, wide) * cast(t[0], wide))};
}

Tensors batch_axes(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool>, int64_t) {
  Shape axes;
  for (int64_t axis : attrs.ints("axes")) {
    axes.push_back(axis + 1);
  }
  return apply(op, in, attrs.with("axes", axes), kHere);
}

Tensors batch_axis(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool>, int64_t) {
  return apply(op, in, attrs.with("axis", attrs.integer("axis") + 1), kHere);
}

Tensors decompose_squares(const Attrs&, std::span<const Tensor> in) {
  const Tensor x = cast(in[0], in[0].dtype() == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32);
  return {sum(x * x)};
}

Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  Cost cost = elementwise_cost(inputs, outputs, 0);
  cost.flops = static_cast<double>(inputs[0].elements());
  return cost;
}

SampleInput of(Dtype dtype, const Shape& shape, double low = -2, bool distinct = false) {
  return {{dtype, shape}, low, 2, distinct};
}

std::vector<Sample> samples_sum(Dtype t) {
  return {{{of(t, {7})}, {{"axes", Shape{0}}}},
          {{of(t, {})}, {{"axes", Shape{}}}},
          {{of(t, {33, 17})}, {{"axes", Shape{0}}}},
          {{of(t, {5, 130})}, {{"axes", Shape{1}}}},
          {{of(t, {3, 4, 5, 6})}, {{"axes", Shape{0, 2}}}},
          {{of(t, {3, 0, 2})}, {{"axes", Shape{1}}}},
          {{of(t, {2, 3})}, {{"axes", Shape{0, 1}}}}};
}
std::vector<Sample> samples_extremum(Dtype t) {
  return {{{of(t, {7}, -2, true)}, {{"axes", Shape{0}}}},
          {{of(t, {5, 9}, -2, true)}, {{"axes", Shape{0}}}},
          {{of(t, {3, 4, 5}, -2, true)}, {{"axes", Shape{0, 2}}}},
          {{of(t, {0, 3}, -2, true)}, {{"axes", Shape{1}}}}};
}
std::vector<Sample> samples_prod(Dtype t) {
  return {{{of(t, {4}, 0.5)}, {{"axes", Shape{0}}}},
          {{of(t, {3, 4, 2}, 0.5)}, {{"axes", Shape{0, 2}}}},
          {{of(t, {2, 0})}, {{"axes", Shape{1}}}}};
}
std::vector<Sample> samples_arg(Dtype t) {
  return {{{of(t, {9}, -2, true)}, {{"axis", int64_t{0}}}},
          {{of(t, {4, 5, 3})}, {{"axis", int64_t{1}}}},
          {{of(t, {6, 31})}, {{"axis", int64_t{1}}}},
          {{of(t, {0, 3})}, {{"axis", int64_t{1}}}}};
}
std::vector<Sample> samples_cumsum(Dtype t) {
  return {{{of(t, {9})}, {{"axis", int64_t{0}}, {"reverse", false}}},
          {{of(t, {3, 5, 2})}, {{"axis", int64_t{1}}, {"reverse", true}}},
          {{of(t, {2, 0})}, {{"axis", int64_t{1}}, {"reverse", false}}}};
}
std::vector<Sample> samples_squares(Dtype t) {
  return {{{of(t, {})}}, {{of(t, {3, 700})}}, {{of(t, {0})}}};
}

// What changes no fold of numbers of the type; none: there is no such number.
std::optional<double> neutral(Fold fold, Dtype dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (fold == Fold::kSum) {
    return 0;
  }
  const bool is_extremum = fold == Fold::kMax || fold == Fold::kMin;
  return is_extremum && is_floating(dtype)
             ? std::optional(fold == Fold::kMax ? -kInfinity : kInfinity)
             : std::nullopt;
}

// Parts of a reduced dim give terms of the fold.
std::vector<Way> layout_axes(const LayoutRequest& request) {
  const Shape& axes = request.attrs.ints("axes");
  const Fold fold = request.op.fold;
  const Reduction reduction = fold == Fold::kMax   ? Reduction::kMax
                              : fold == Fold::kMin ? Reduction::kMin
                                                   : Reduction::kSum;
  std::vector<Way> ways;
  int kept = 0;
  for (int i = 0; i < request.inputs[0].shape.rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    Way way = layout::by_dims(request, {i}, {reduced ? layout::kWhole : kept++});
    if (reduced && fold == Fold::kNone) {
      continue;
    }
    if (reduced) {
      way.outputs[0] = partial(reduction);
    }
    const std::optional<double> nothing = neutral(fold, request.inputs[0].dtype);
    way.uneven = !reduced || nothing;
    if (reduced && nothing) {
      way.program = [i, whole = request.inputs[0].shape[i], instead = *nothing,
                     attrs = request.attrs, &op = request.op](std::span<const Tensor> in,
                                                              const MeshAxis& ranks) -> Tensors {
        return {apply1(op, {layout::without_filling(in[0], i, whole, ranks, instead)}, attrs,
                       SourceLocation::current())};
      };
    }
    ways.push_back(std::move(way));
  }
  if (fold != Fold::kNone) {
    ways.push_back(request.whole());
    ways.back().inputs[0] = ways.back().outputs[0] = partial(reduction);
  }
  return ways;
}

std::vector<Way> layout_cumsum(const LayoutRequest& request) {
  std::vector<Way> ways = layout::beside_axis(request);
  ways.push_back(layout::sums(request, 1).at(0));
  return ways;
}

std::vector<Way> layout_squares(const LayoutRequest& request) {
  std::vector<Way> ways = layout::alike(request);
  for (Way& way : ways) {
    const int dim = way.inputs[0].dim;
    way.outputs[0] = partial();
    way.program = [dim, whole = request.inputs[0].shape[dim]](std::span<const Tensor> in,
                                                              const MeshAxis& ranks) -> Tensors {
      return {sum_squares(layout::without_filling(in[0], dim, whole, ranks))};
    };
  }
  return ways;
}

constexpr auto kNumeric = DtypeClass::kNumeric;
constexpr auto kReduce = OpKind::kReduce;

constexpr OpDef kDefs[] = {
    {.name = "reduce_sum",
     .kind = kReduce,
     .dtypes = kNumeric,
     .infer = infer_sum,
     .jvp = jvp_same,
     .vjp = vjp_sum,
     .batch = batch_axes,
     .cost = cost,
     .layout = layout_axes,
     .samples = samples_sum,
     .precision = Precision::kWide,
     .fold = Fold::kSum},
    {.name = "reduce_max",
     .kind = kReduce,
     .dtypes = kNumeric,
     .infer = infer_extremum,
     .jvp = jvp_extremum,
     .batch = batch_axes,
     .cost = cost,
     .layout = layout_axes,
     .samples = samples_extremum,
     .smooth = false,
     .fold = Fold::kMax},
    {.name = "reduce_min",
     .kind = kReduce,
     .dtypes = kNumeric,
     .infer = infer_extremum,
     .jvp = jvp_extremum,
     .batch = batch_axes,
     .cost = cost,
     .layout = layout_axes,
     .samples = samples_extremum,
     .smooth = false,
     .fold = Fold::kMin},
    {.name = "reduce_prod",
     .kind = kReduce,
     .dtypes = kNumeric,
     .infer = infer_sum,
     .jvp = jvp_prod,
     .batch = batch_axes,
     .cost = cost,
     .layout = layout_axes,
     .samples = samples_prod,
     .precision = Precision::kWide},
    {.name = "argmax",
     .kind = kReduce,
     .dtypes = kNumeric,
     .infer = infer_arg,
     .jvp = zero_derivative,
     .vjp = zero_derivative,
     .batch = batch_axis,
     .cost = cost,
     .layout = layout::beside_axis,
     .samples = samples_arg,
     .smooth = false},
    {.name = "argmin",
     .kind = kReduce,
     .dtypes = kNumeric,
     .infer = infer_arg,
     .jvp = zero_derivative,
     .vjp = zero_derivative,
     .batch = batch_axis,
     .cost = cost,
     .layout = layout::beside_axis,
     .samples = samples_arg,
     .smooth = false},
    {.name = "cumsum",
     .kind = kReduce,
     .dtypes = kNumeric,
     .infer = infer_cumsum,
     .jvp = jvp_same,
     .vjp = vjp_cumsum,
     .batch = batch_axis,
     .cost = cost,
     .layout = layout_cumsum,
     .samples = samples_cumsum,
     .precision = Precision::kWide},
    {.name = "sum_squares",
     .kind = kReduce,
     .dtypes = DtypeClass::kFloating,
     .infer = infer_squares,
     .jvp = jvp_squares,
     .batch = batch_by_decomposition,
     .decompose = decompose_squares,
     .cost = cost,
     .layout = layout_squares,
     .samples = samples_squares,
     .precision = Precision::kWide,
     .fold = Fold::kSumSquares},
};

Tensor reduce(const OpDef& op, const Arg& arg, const Shape& axes, bool keep_dims) {
  const Tensor& x = arg.tensor();
  std::array<bool, kMaxRank> reduced{};
  for (int64_t axis : axes) {
    check(axis >= -x.rank() && axis < x.rank(), "{}: axis {} is outside of {}, at {}", op.name,
          axis, to_string(x.shape()), to_string(arg.where()));
    bool& is_reduced = reduced[static_cast<size_t>(axis < 0 ? axis + x.rank() : axis)];
    check(!is_reduced, "{}: axes {} name axis {} twice, at {}", op.name, to_string(axes), axis,
          to_string(arg.where()));
    is_reduced = true;
  }
  Shape sorted;
  for (int i = 0; i < x.rank(); ++i) {
    if (axes.rank() == 0 || reduced[static_cast<size_t>(i)]) {
      sorted.push_back(i);
    }
  }
  const Tensor result = sorted.rank() == 0 ? x : apply1(op, {x}, {{"axes", sorted}}, arg.where());
  return keep_dims ? with_dims(result, x.shape(), sorted) : result;
}

Tensor along(const OpDef& op, const Arg& x, int axis, Attrs attrs) {
  const int rank = x.tensor().rank();
  check(axis >= -rank && axis < rank, "{}: axis {} is outside of {}, at {}", op.name, axis,
        to_string(x.tensor().shape()), to_string(x.where()));
  attrs.set("axis", int64_t{axis < 0 ? axis + rank : axis});
  return apply1(op, {x.tensor()}, std::move(attrs), x.where());
}

}  // namespace

std::span<const OpDef> reduce_ops() { return kDefs; }

Tensor sum(const Arg& x, const Shape& axes, bool keep_dims) {
  return reduce(kDefs[0], x, axes, keep_dims);
}
Tensor max(const Arg& x, const Shape& axes, bool keep_dims) {
  return reduce(kDefs[1], x, axes, keep_dims);
}
Tensor min(const Arg& x, const Shape& axes, bool keep_dims) {
  return reduce(kDefs[2], x, axes, keep_dims);
}
Tensor prod(const Arg& x, const Shape& axes, bool keep_dims) {
  return reduce(kDefs[3], x, axes, keep_dims);
}
Tensor argmax(const Arg& x, int axis) { return along(kDefs[4], x, axis, {}); }
Tensor argmin(const Arg& x, int axis) { return along(kDefs[5], x, axis, {}); }
Tensor cumsum(const Arg& x, int axis, bool reverse) {
  return along(kDefs[6], x, axis, {{"reverse", reverse}});
}

Tensor any(const Arg& x, const Shape& axes, bool keep_dims) {
  return count_nonzero(x, axes, keep_dims) > 0;
}
Tensor all(const Arg& x, const Shape& axes, bool keep_dims) {
  return equal(count_nonzero(logical_not(cast(x, Dtype::kBool)), axes, keep_dims), 0);
}
Tensor count_nonzero(const Arg& x, const Shape& axes, bool keep_dims) {
  return sum(cast(cast(x, Dtype::kBool), Dtype::kI32), axes, keep_dims);
}
Tensor sum_squares(const Arg& x) { return apply1(kDefs[7], {x.tensor()}, {}, x.where()); }

}  // namespace mstrain
