#include "core/ops/index.h"

#include "core/ops/elementwise.h"
#include "core/ops/index_common.h"
#include "core/ops/index_layout.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

int axis_of(const Attrs& attrs) { return static_cast<int>(attrs.integer("axis")); }

Types infer_gather(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  expect_ids(in[1]);
  const int axis = normal_axis(attrs.integer("axis"), in[0].shape.rank());
  return {{in[0].dtype, gathered_shape(in[0].shape, axis, in[1].shape)}};
}

Types infer_scatter(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 3);
  const Types gathered = infer_gather(in.first(2), attrs);
  expect_same_dtype(in[0], in[2]);
  if (!(in[2].shape == gathered[0].shape)) {
    throw ShapeError(fmt::format("updates are {}, not {}", to_string(in[2].shape),
                                 to_string(gathered[0].shape)));
  }
  return {in[0]};
}

Types infer_scatter_add(std::span<const TensorType> in, const Attrs& attrs) {
  const Types types = infer_scatter(in, attrs);
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  return types;
}

Types infer_along(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  expect_ids(in[1]);
  expect_along(in[0].shape, in[1].shape, normal_axis(attrs.integer("axis"), in[0].shape.rank()));
  return {{in[0].dtype, in[1].shape}};
}

Types infer_scatter_along(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 3);
  infer_along(in.first(2), attrs);
  expect_same_dtype(in[0], in[2]);
  if (!(in[2].shape == in[1].shape)) {
    throw ShapeError(
        fmt::format("updates are {}, ids {}", to_string(in[2].shape), to_string(in[1].shape)));
  }
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  return {in[0]};
}

Types infer_one_hot(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  expect_ids(in[0]);
  const int64_t depth = attrs.integer("depth");
  if (depth < 0) {
    throw ShapeError(fmt::format("a depth of {}", depth));
  }
  return {{attrs.dtype("dtype"), in[0].shape.with_inserted(in[0].shape.rank(), depth)}};
}

// gather and take_along are linear in x.
Tensors jvp_read(const Application& node, std::span<const Tensor> t) {
  return t[0].defined() ? apply(node.op, std::array{t[0], node.inputs[1]}, node.attrs, kHere)
                        : Tensors(1);
}

Tensors vjp_gather(const Application& node, std::span<const Tensor> ct) {
  return {scatter_add(zeros_like(node.inputs[0]), node.inputs[1], ct[0], axis_of(node.attrs)),
          Tensor()};
}

Tensors vjp_take_along(const Application& node, std::span<const Tensor> ct) {
  return {scatter_add_along(zeros_like(node.inputs[0]), node.inputs[1], ct[0], axis_of(node.attrs)),
          Tensor()};
}

// Scatters are linear in x and updates together.
Tensors jvp_scatter(const Application& node, std::span<const Tensor> t) {
  if (!t[0].defined() && !t[2].defined()) {
    return Tensors(1);
  }
  const Tensors inputs{t[0].defined() ? t[0] : zeros_like(node.inputs[0]), node.inputs[1],
                       t[2].defined() ? t[2] : zeros_like(node.inputs[2])};
  return apply(node.op, inputs, node.attrs, kHere);
}

Tensors vjp_scatter_add(const Application& node, std::span<const Tensor> ct) {
  return {ct[0], Tensor(), gather(ct[0], node.inputs[1], axis_of(node.attrs))};
}

Tensors vjp_scatter_add_along(const Application& node, std::span<const Tensor> ct) {
  return {ct[0], Tensor(), take_along(ct[0], node.inputs[1], axis_of(node.attrs))};
}

// x loses what was replaced; an update gets the cotangent of its place where it was the last one to
// write there.
Tensors vjp_scatter_set(const Application& node, std::span<const Tensor> ct) {
  const Tensor& x = node.inputs[0];
  const Tensor& ids = node.inputs[1];
  const Tensor& updates = node.inputs[2];
  const int axis = axis_of(node.attrs);
  const Tensor positions = reshape(iota({ids.elements()}, 0), ids.shape());
  const Tensor last = gather(scatter_set(full({x.dim(axis)}, 0, Dtype::kI32), ids, positions), ids);
  Shape spread = Shape::filled(updates.rank(), 1);
  for (int i = 0; i < ids.rank(); ++i) {
    spread[axis + i] = ids.dim(i);
  }
  const Tensor stays = reshape(equal(last, positions), spread);
  return {scatter_set(ct[0], ids, zeros_like(updates), axis), Tensor(),
          where(stays, gather(ct[0], ids, axis), 0)};
}

// ids[size, k…] as [size, 1…, K, 1…], repeated to the dims of `shape` except that dim `axis` is K.
Tensor spread_ids(const Tensor& ids, Shape shape, int axis) {
  const int64_t count = ids.dim(0) == 0 ? 0 : ids.elements() / ids.dim(0);
  Shape thin = Shape::filled(shape.rank(), 1);
  thin[0] = ids.dim(0);
  thin[axis] = count;
  shape[axis] = count;
  return broadcast_to(reshape(ids, thin), shape);
}

Tensors batch_gather(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                     std::span<const bool> batched, int64_t size) {
  const int axis = axis_of(attrs);
  if (!batched[1]) {
    return apply(op, in, attrs.with("axis", int64_t{axis} + 1), kHere);
  }
  if (!batched[0]) {
    return {move_axis(gather(in[0], in[1], axis), axis, 0)};
  }
  const Tensor taken = take_along(in[0], spread_ids(in[1], in[0].shape(), axis + 1), axis + 1);
  Shape ids;
  for (int i = 1; i < in[1].rank(); ++i) {
    ids.push_back(in[1].dim(i));
  }
  static_cast<void>(size);
  return {reshape(taken, gathered_shape(in[0].shape(), axis + 1, ids))};
}

Tensors batch_scatter_add(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                          std::span<const bool> batched, int64_t size) {
  const int axis = axis_of(attrs) + 1;
  const Tensor x = batched[0] ? in[0] : repeat_leading(in[0], size);
  const Tensor updates = batched[2] ? in[2] : repeat_leading(in[2], size);
  if (!batched[1]) {
    return apply(op, std::array{x, in[1], updates}, attrs.with("axis", int64_t{axis}), kHere);
  }
  const Tensor ids = spread_ids(in[1], x.shape(), axis);
  return {scatter_add_along(x, ids, reshape(updates, ids.shape()), axis)};
}

// With ids of their own, the rows of all samples are one dim; ids are checked against their own
// sample first.
Tensors batch_scatter_set(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                          std::span<const bool> batched, int64_t size) {
  const int axis = axis_of(attrs) + 1;
  const Tensor x = batched[0] ? in[0] : repeat_leading(in[0], size);
  const Tensor updates = batched[2] ? in[2] : repeat_leading(in[2], size);
  if (!batched[1]) {
    return apply(op, std::array{x, in[1], updates}, attrs.with("axis", int64_t{axis}), kHere);
  }
  const int64_t rows = x.dim(axis);
  const int64_t count = size == 0 ? 0 : in[1].elements() / size;
  const Tensor checked = gather(iota({rows}, 0, Dtype::kI64), reshape(in[1], {size, count}));
  const Tensor offsets = iota({size, 1}, 0, Dtype::kI64) * rows;
  const Tensor ids = reshape(checked + offsets, {size * count});
  Shape flat = x.shape();
  flat[axis] = count;
  const auto front = [&](const Tensor& t) {
    const Tensor moved = move_axis(t, axis, 1);
    return flatten(moved, 0, 1);
  };
  const Tensor result = scatter_set(front(x), ids, front(reshape(updates, flat)));
  Shape shape = result.shape().with_inserted(0, size);
  shape[1] = rows;
  return {move_axis(reshape(result, shape), 1, axis)};
}

Tensors batch_along(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                    std::span<const bool> batched, int64_t size) {
  return apply(op, batch_all(in, batched, size), attrs.with("axis", attrs.integer("axis") + 1),
               kHere);
}

Cost cost_read(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return {0, 2.0 * static_cast<double>(out[0].bytes()) + static_cast<double>(in[1].bytes())};
}

Cost cost_write(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return {static_cast<double>(in[2].elements()),
          static_cast<double>(in[0].bytes() + out[0].bytes() + in[1].bytes() + 3 * in[2].bytes())};
}

Cost cost_one_hot(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 0);
}

SampleInput of(Dtype dtype, const Shape& shape) { return {{dtype, shape}, -2, 2}; }
SampleInput ids_below(int64_t n, const Shape& shape, Dtype dtype = Dtype::kI32) {
  return {{dtype, shape}, 0, static_cast<double>(n)};
}

std::vector<Sample> samples_gather(Dtype t) {
  return {{{of(t, {5, 3}), ids_below(5, {4})}, {{"axis", int64_t{0}}}},
          {{of(t, {2, 7, 3}), ids_below(7, {2, 5}, Dtype::kI64)}, {{"axis", int64_t{1}}}},
          {{of(t, {3, 9}), ids_below(9, {})}, {{"axis", int64_t{1}}}},
          {{of(t, {1, 1}), ids_below(1, {1})}, {{"axis", int64_t{0}}}},
          {{of(t, {65, 33}), ids_below(65, {3, 17})}, {{"axis", int64_t{0}}}},
          {{of(t, {2, 1, 7}), ids_below(7, {0})}, {{"axis", int64_t{2}}}},
          {{of(t, {4, 0}), ids_below(4, {3})}, {{"axis", int64_t{0}}}}};
}

std::vector<Sample> with_updates(std::vector<Sample> samples, Dtype t) {
  for (Sample& sample : samples) {
    const int axis = axis_of(sample.attrs);
    sample.inputs.push_back(
        of(t, gathered_shape(sample.inputs[0].type.shape, axis, sample.inputs[1].type.shape)));
  }
  return samples;
}
std::vector<Sample> samples_scatter(Dtype t) { return with_updates(samples_gather(t), t); }

std::vector<Sample> samples_along(Dtype t) {
  return {{{of(t, {5}), ids_below(5, {9})}, {{"axis", int64_t{0}}}},
          {{of(t, {3, 7}), ids_below(7, {3, 4}, Dtype::kI64)}, {{"axis", int64_t{1}}}},
          {{of(t, {2, 4, 3}), ids_below(4, {2, 5, 3})}, {{"axis", int64_t{1}}}},
          {{of(t, {1, 1}), ids_below(1, {1, 1})}, {{"axis", int64_t{1}}}},
          {{of(t, {3, 7}), ids_below(7, {3, 0})}, {{"axis", int64_t{1}}}}};
}
std::vector<Sample> samples_scatter_along(Dtype t) {
  std::vector<Sample> samples = samples_along(t);
  for (Sample& sample : samples) {
    sample.inputs.push_back(of(t, sample.inputs[1].type.shape));
  }
  return samples;
}

std::vector<Sample> samples_one_hot(Dtype t) {
  return {{{ids_below(5, {4})}, {{"depth", int64_t{5}}, {"dtype", t}}},
          {{ids_below(33, {2, 7}, Dtype::kI64)}, {{"depth", int64_t{33}}, {"dtype", t}}},
          {{ids_below(1, {})}, {{"depth", int64_t{1}}, {"dtype", t}}},
          {{ids_below(3, {0, 2})}, {{"depth", int64_t{3}}, {"dtype", t}}}};
}

constexpr auto kIndex = OpKind::kIndex;

constexpr OpDef kDefs[] = {
    {.name = "gather",
     .kind = kIndex,
     .dtypes = DtypeClass::kAny,
     .infer = infer_gather,
     .jvp = jvp_read,
     .vjp = vjp_gather,
     .batch = batch_gather,
     .cost = cost_read,
     .layout = index_layout::gather,
     .samples = samples_gather},
    {.name = "scatter_add",
     .kind = kIndex,
     .dtypes = DtypeClass::kNumeric,
     .infer = infer_scatter_add,
     .jvp = jvp_scatter,
     .vjp = vjp_scatter_add,
     .batch = batch_scatter_add,
     .cost = cost_write,
     .layout = index_layout::scatter_add,
     .samples = samples_scatter},
    {.name = "scatter_set",
     .kind = kIndex,
     .dtypes = DtypeClass::kAny,
     .infer = infer_scatter,
     .jvp = jvp_scatter,
     .vjp = vjp_scatter_set,
     .batch = batch_scatter_set,
     .cost = cost_write,
     .layout = index_layout::scatter_set,
     .samples = samples_scatter},
    {.name = "take_along",
     .kind = kIndex,
     .dtypes = DtypeClass::kAny,
     .infer = infer_along,
     .jvp = jvp_read,
     .vjp = vjp_take_along,
     .batch = batch_along,
     .cost = cost_read,
     .layout = index_layout::take_along,
     .samples = samples_along},
    {.name = "scatter_add_along",
     .kind = kIndex,
     .dtypes = DtypeClass::kNumeric,
     .infer = infer_scatter_along,
     .jvp = jvp_scatter,
     .vjp = vjp_scatter_add_along,
     .batch = batch_along,
     .cost = cost_write,
     .layout = index_layout::scatter_add_along,
     .samples = samples_scatter_along},
    {.name = "one_hot",
     .kind = kIndex,
     .dtypes = DtypeClass::kAny,
     .infer = infer_one_hot,
     .jvp = zero_derivative,
     .vjp = zero_derivative,
     .batch = batch_leading,
     .cost = cost_one_hot,
     .layout = layout::leading<0>,
     .samples = samples_one_hot,
     .smooth = false},
};

int along(const OpDef& op, const Arg& x, int axis) {
  const int rank = x.tensor().rank();
  check(axis >= -rank && axis < rank, "{}: axis {} is outside of {}, at {}", op.name, axis,
        to_string(x.tensor().shape()), to_string(x.where()));
  return axis < 0 ? axis + rank : axis;
}

Tensor scatter(const OpDef& op, const Arg& x, const Arg& ids, const Arg& updates, int axis) {
  const int normal = along(op, x, axis);
  const Shape shape = gathered_shape(x.tensor().shape(), normal, ids.tensor().shape());
  const Tensor values = updates.is_number()
                            ? full(shape, updates.number(), x.tensor().dtype(), x.where())
                            : broadcast_to(updates, shape);
  return apply1(op, {x.tensor(), ids.tensor(), values}, {{"axis", int64_t{normal}}}, x.where());
}

}  // namespace

std::span<const OpDef> index_ops() { return kDefs; }

Tensor gather(const Arg& x, const Arg& ids, int axis) {
  const OpDef& op = kDefs[0];
  return apply1(op, {x.tensor(), ids.tensor()}, {{"axis", int64_t{along(op, x, axis)}}}, x.where());
}

Tensor scatter_add(const Arg& x, const Arg& ids, const Arg& updates, int axis) {
  return scatter(kDefs[1], x, ids, updates, axis);
}

Tensor scatter_set(const Arg& x, const Arg& ids, const Arg& updates, int axis) {
  return scatter(kDefs[2], x, ids, updates, axis);
}

Tensor take_along(const Arg& x, const Arg& ids, int axis) {
  const OpDef& op = kDefs[3];
  return apply1(op, {x.tensor(), ids.tensor()}, {{"axis", int64_t{along(op, x, axis)}}}, x.where());
}

Tensor scatter_add_along(const Arg& x, const Arg& ids, const Arg& updates, int axis) {
  const OpDef& op = kDefs[4];
  return apply1(op, {x.tensor(), ids.tensor(), updates.tensor()},
                {{"axis", int64_t{along(op, x, axis)}}}, x.where());
}

Tensor one_hot(const Arg& ids, int64_t depth, Dtype dtype) {
  return apply1(kDefs[5], {ids.tensor()}, {{"depth", depth}, {"dtype", dtype}}, ids.where());
}

}  // namespace mstrain
