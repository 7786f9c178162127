// all_reduce{axis, ranks, reduction}, all_gather{axis, ranks}, reduce_scatter{axis, ranks, reduction}, all_to_all{axis, ranks},
// permute{axis, ranks, to}, axis_index{axis, ranks}; all but the last may have waits=true (WaitScope)
//
// What is gathered, scattered or exchanged has a leading dim with a part for each rank; users' functions move it to where
// they want it.
#include "core/ops/collective.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();
constexpr std::string_view kReductions[] = {"sum", "fast_sum", "max", "min"};

int64_t ranks_in(const Attrs& attrs) {
  attrs.text("axis");
  const int64_t ranks = attrs.integer("ranks");
  if (ranks < 1) {
    throw ShapeError(fmt::format("an axis of {} ranks", ranks), "an axis has one rank at least");
  }
  return ranks;
}

bool sums(const Attrs& attrs) {
  const Reduction reduction = reduction_of(attrs);
  return reduction == Reduction::kSum || reduction == Reduction::kFastSum;
}

void expect_parts(const TensorType& x, const Attrs& attrs) {
  const int64_t ranks = ranks_in(attrs);
  if (x.shape.rank() == 0 || x.shape[0] != ranks) {
    throw ShapeError(
        fmt::format("{} has no leading dim of {}, a part for each rank", to_string(x), ranks));
  }
}

Types infer_same(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  ranks_in(attrs);
  return {in[0]};
}

Types infer_all_reduce(std::span<const TensorType> in, const Attrs& attrs) {
  reduction_of(attrs);
  return infer_same(in, attrs);
}

Types infer_all_gather(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  return {{in[0].dtype, in[0].shape.with_inserted(0, ranks_in(attrs))}};
}

Types infer_reduce_scatter(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.size() != 2) {
    expect_inputs(in, 1);
  }
  expect_parts(in[0], attrs);
  if (!sums(attrs)) {
    throw ShapeError("scatters sums alone", "take all_reduce for maxima and minima");
  }
  TensorType part{in[0].dtype, in[0].shape.without(0)};
  if (in.size() == 1) {
    return {part};
  }
  const bool wider = is_short(part.dtype) && in[1].dtype == Dtype::kF32;
  if (!(in[1].shape == part.shape) || (in[1].dtype != part.dtype && !wider)) {
    throw ShapeError(
        fmt::format("the sum begins with {}, a part is {}", to_string(in[1]), to_string(part)));
  }
  return {in[1]};
}

Types infer_all_to_all(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  expect_parts(in[0], attrs);
  return {in[0]};
}

std::string text_of(std::span<const int64_t> ranks) {
  return fmt::format("{}", fmt::join(ranks, " "));
}

Types infer_permute(std::span<const TensorType> in, const Attrs& attrs) {
  destinations_of(attrs);
  return infer_same(in, attrs);
}

Types infer_axis_index(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 0);
  ranks_in(attrs);
  return {{Dtype::kI32, {}}};
}

// A linear operation, of tangents.
Tensors jvp_linear(const Application& node, std::span<const Tensor> t) {
  return apply(node.op, t, node.attrs, kHere);
}

// Ties share the derivative of an extremum.
Tensors jvp_all_reduce(const Application& node, std::span<const Tensor> t) {
  if (sums(node.attrs)) {
    return jvp_linear(node, t);
  }
  const MeshAxis axis = axis_of(node.attrs);
  const Tensor leads = equal(node.inputs[0], node.outputs[0]);
  const Tensor leaders = all_reduce(cast(leads, t[0].dtype()), axis);
  return {all_reduce(where(leads, t[0], 0), axis) / leaders};
}

Tensors vjp_all_reduce(const Application& node, std::span<const Tensor> ct) {
  if (sums(node.attrs)) {
    return jvp_linear(node, ct);
  }
  const MeshAxis axis = axis_of(node.attrs);
  const Tensor leads = equal(node.inputs[0], node.outputs[0]);
  const Tensor leaders = all_reduce(cast(leads, ct[0].dtype()), axis);
  return {where(leads, all_reduce(ct[0], axis) / leaders, 0)};
}

const OpDef& op_named(std::string_view name);

Attrs attrs_of(const MeshAxis& axis) { return {{"axis", axis.name}, {"ranks", axis.size}}; }

constexpr std::string_view kWaits = "waits";
Attrs with_wait(const Attrs& attrs, bool waits) { return waits ? attrs.with(kWaits, true) : attrs; }

Tensors vjp_all_gather(const Application& node, std::span<const Tensor> ct) {
  return apply(op_named("reduce_scatter"), ct, node.attrs.with("reduction", std::string("sum")),
               kHere);
}

Tensors jvp_reduce_scatter(const Application& node, std::span<const Tensor> t) {
  if (t.size() == 1) {
    return jvp_linear(node, t);
  }
  if (!t[0].defined()) {
    return {t[1]};
  }
  if (!t[1].defined()) {
    return {cast(apply(node.op, t.first(1), node.attrs, kHere)[0], node.outputs[0].dtype())};
  }
  return jvp_linear(node, t);
}

Tensors vjp_reduce_scatter(const Application& node, std::span<const Tensor> ct) {
  const Tensor part = cast(ct[0], node.inputs[0].dtype());
  const Attrs attrs = with_wait(attrs_of(axis_of(node.attrs)), waits_in_place(node.attrs));
  Tensors result{apply(op_named("all_gather"), std::span(&part, 1), attrs, kHere)[0]};
  if (node.inputs.size() == 2) {
    result.push_back(ct[0]);
  }
  return result;
}

Tensors vjp_permute(const Application& node, std::span<const Tensor> ct) {
  return apply(node.op, ct, node.attrs.with("to", text_of(inverse_of(destinations_of(node.attrs)))),
               kHere);
}

Tensors batch_all_gather(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                         std::span<const bool>, int64_t) {
  return {move_axis(apply(op, in, attrs, kHere)[0], 0, 1)};
}

Tensors batch_reduce_scatter(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                             std::span<const bool> batched, int64_t size) {
  Tensors all = batch_all(in, batched, size);
  all[0] = move_axis(all[0], 1, 0);
  return apply(op, all, attrs, kHere);
}

Tensors batch_all_to_all(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                         std::span<const bool>, int64_t) {
  const Tensor x = move_axis(in[0], 1, 0);
  return {move_axis(apply(op, std::span(&x, 1), attrs, kHere)[0], 0, 1)};
}

// Nothing is batched, since there is no input.
Tensors batch_axis_index(const OpDef& op, const Attrs& attrs, std::span<const Tensor>,
                         std::span<const bool>, int64_t size) {
  return {repeat_leading(apply(op, {}, attrs, kHere)[0], size)};
}

// Each byte passes once; sums are an addition an element.
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 1);
}

// Of an axis of one rank, which needs no ranks; what several do, tests of their own say.
Attrs alone() { return {{"axis", std::string("data")}, {"ranks", int64_t{1}}}; }
Attrs alone_reducing(std::string_view reduction) {
  return alone().with("reduction", std::string(reduction));
}

std::vector<Sample> samples_all_reduce(Dtype t) {
  return {{{{{t, {3, 5}}}}, alone_reducing("sum")},
          {{{{t, {4}}}}, alone_reducing("max")},
          {{{{t, {0, 2}}}}, alone_reducing("sum")}};
}
std::vector<Sample> samples_plain(Dtype t) {
  return {{{{{t, {3, 5}}}}, alone()}, {{{{t, {2, 0}}}}, alone()}};
}
std::vector<Sample> samples_parts(Dtype t) {
  return {{{{{t, {1, 3, 5}}}}, alone()}, {{{{t, {1, 0}}}}, alone()}};
}
std::vector<Sample> samples_reduce_scatter(Dtype t) {
  return {{{{{t, {1, 7}}}}, alone_reducing("sum")},
          {{{{t, {1, 2, 3}}}, {{accumulation_dtype(t), {2, 3}}}}, alone_reducing("sum")},
          {{{{t, {1, 0}}}}, alone_reducing("sum")}};
}
std::vector<Sample> samples_permute(Dtype t) {
  return {{{{{t, {3, 5}}}}, alone().with("to", std::string("0"))},
          {{{{t, {0}}}}, alone().with("to", std::string("0"))}};
}
std::vector<Sample> samples_axis_index(Dtype) { return {{{}, alone()}}; }

// Along another axis of the mesh: every dim of what ranks have, and terms of sums.
std::vector<Way> layout_parts(const LayoutRequest& request, int from, int to) {
  std::vector<Way> ways;
  const int rank = request.inputs[0].shape.rank() - from;
  for (int i = 0; i < rank; ++i) {
    ways.push_back(request.whole());
    std::fill(ways.back().inputs.begin(), ways.back().inputs.end(), sharded(i + to));
    ways.back().inputs[0] = sharded(i + from);
    ways.back().outputs[0] = sharded(i + to);
  }
  return ways;
}
std::vector<Way> with_sums(const LayoutRequest& request, std::vector<Way> ways) {
  const std::vector<Way> more = layout::sums(request, ~uint32_t{0});
  ways.insert(ways.end(), more.begin(), more.end());
  return ways;
}
std::vector<Way> layout_all_reduce(const LayoutRequest& request) {
  std::vector<Way> ways = layout_parts(request, 0, 0);
  return sums(request.attrs) ? with_sums(request, std::move(ways)) : ways;
}
std::vector<Way> layout_all_gather(const LayoutRequest& request) {
  return with_sums(request, layout_parts(request, 0, 1));
}
std::vector<Way> layout_reduce_scatter(const LayoutRequest& request) {
  return with_sums(request, layout_parts(request, 1, 0));
}
std::vector<Way> layout_all_to_all(const LayoutRequest& request) {
  return with_sums(request, layout_parts(request, 1, 1));
}

constexpr auto kKind = OpKind::kCollective;

constexpr OpDef kDefs[] = {{.name = "all_reduce",
                            .kind = kKind,
                            .infer = infer_all_reduce,
                            .jvp = jvp_all_reduce,
                            .vjp = vjp_all_reduce,
                            .batch = batch_leading,
                            .cost = cost,
                            .layout = layout_all_reduce,
                            .samples = samples_all_reduce,
                            .smooth = false,
                            .precision = Precision::kAny,
                            .among_ranks = true},
                           {.name = "all_gather",
                            .kind = kKind,
                            .infer = infer_all_gather,
                            .jvp = jvp_linear,
                            .vjp = vjp_all_gather,
                            .batch = batch_all_gather,
                            .cost = cost,
                            .layout = layout_all_gather,
                            .samples = samples_plain,
                            .precision = Precision::kAny,
                            .among_ranks = true},
                           {.name = "reduce_scatter",
                            .kind = kKind,
                            .infer = infer_reduce_scatter,
                            .jvp = jvp_reduce_scatter,
                            .vjp = vjp_reduce_scatter,
                            .batch = batch_reduce_scatter,
                            .cost = cost,
                            .layout = layout_reduce_scatter,
                            .samples = samples_reduce_scatter,
                            .precision = Precision::kAny,
                            .among_ranks = true},
                           {.name = "all_to_all",
                            .kind = kKind,
                            .infer = infer_all_to_all,
                            .jvp = jvp_linear,
                            .vjp = jvp_linear,
                            .batch = batch_all_to_all,
                            .cost = cost,
                            .layout = layout_all_to_all,
                            .samples = samples_parts,
                            .precision = Precision::kAny,
                            .among_ranks = true},
                           {.name = "permute",
                            .kind = kKind,
                            .infer = infer_permute,
                            .jvp = jvp_linear,
                            .vjp = vjp_permute,
                            .batch = batch_leading,
                            .cost = cost,
                            .layout = layout::alike,
                            .samples = samples_permute,
                            .precision = Precision::kAny,
                            .among_ranks = true},
                           {.name = "axis_index",
                            .kind = OpKind::kSource,
                            .dtypes = DtypeClass::kAny,
                            .infer = infer_axis_index,
                            .jvp = zero_derivative,
                            .batch = batch_axis_index,
                            .cost = cost,
                            .layout = layout::whole,
                            .samples = samples_axis_index,
                            .among_ranks = true}};

const OpDef& op_named(std::string_view name) {
  for (const OpDef& def : kDefs) {
    if (def.name == name) {
      return def;
    }
  }
  fail("no collective operation {}", name);
}

thread_local bool waits_now = false;

Tensor collective(std::string_view name, std::span<const Tensor> in, const Attrs& attrs,
                  const SourceLocation& where) {
  return apply(op_named(name), in, with_wait(attrs, waits_now), where)[0];
}

std::string text_of(Reduction reduction) {
  return std::string(kReductions[static_cast<size_t>(reduction)]);
}

// [ranks, …]: the parts of `dim`, which then has a part's size.
Tensor parted(const Arg& x, const MeshAxis& axis, int dim, std::string_view name) {
  const Shape& shape = x.tensor().shape();
  check(shape[dim] % axis.size == 0, "{}: dim {} of {} does not divide among {} ranks, at {}", name,
        dim, to_string(shape), axis.size, to_string(x.where()));
  Shape parts = shape;
  parts[dim] /= axis.size;
  return move_axis(Arg(reshape(x, parts.with_inserted(dim, axis.size)), x.where()), dim, 0);
}

// The leading parts one after another along `dim`.
Tensor joined(const Tensor& parts, int dim) {
  Shape shape = parts.shape().without(0);
  shape[dim] *= parts.dim(0);
  return reshape(move_axis(parts, 0, dim), shape);
}

}  // namespace

WaitScope::WaitScope(bool waits) : outer_(std::exchange(waits_now, waits)) {}

WaitScope::~WaitScope() { waits_now = outer_; }

bool waits_in_place(const Attrs& attrs) { return attrs.find(kWaits) != nullptr; }

MeshAxis axis_of(const Attrs& attrs) { return {attrs.text("axis"), attrs.integer("ranks")}; }

Reduction reduction_of(const Attrs& attrs) {
  const std::string& text = attrs.text("reduction");
  for (size_t i = 0; i < std::size(kReductions); ++i) {
    if (text == kReductions[i]) {
      return static_cast<Reduction>(i);
    }
  }
  throw ShapeError(fmt::format("there is no reduction {}", text), "sum, fast_sum, max or min");
}

std::vector<int64_t> destinations_of(const Attrs& attrs) {
  const std::string& text = attrs.text("to");
  std::vector<int64_t> to;
  for (const char *at = text.data(), *const end = at + text.size(); at < end; ++at) {
    int64_t rank = -1;
    at = std::from_chars(at, end, rank).ptr;
    to.push_back(rank);
  }
  std::vector<int64_t> sorted = to;
  std::sort(sorted.begin(), sorted.end());
  bool each_once = static_cast<int64_t>(to.size()) == ranks_in(attrs);
  for (size_t i = 0; i < sorted.size(); ++i) {
    each_once = each_once && sorted[i] == static_cast<int64_t>(i);
  }
  if (!each_once) {
    throw ShapeError(fmt::format("ranks send to {}", text),
                     fmt::format("each of {} ranks gets one rank's part", ranks_in(attrs)));
  }
  return to;
}

std::vector<int64_t> inverse_of(std::span<const int64_t> to) {
  std::vector<int64_t> from(to.size());
  for (size_t rank = 0; rank < to.size(); ++rank) {
    from[static_cast<size_t>(to[rank])] = static_cast<int64_t>(rank);
  }
  return from;
}

std::span<const OpDef> collective_ops() { return kDefs; }

Tensor all_reduce(const Arg& x, const MeshAxis& axis, Reduction reduction) {
  return collective("all_reduce", std::array{x.tensor()},
                    attrs_of(axis).with("reduction", text_of(reduction)), x.where());
}

Tensor all_gather(const Arg& x, const MeshAxis& axis, int dim) {
  const int at = axis_of(x, dim, "all_gather");
  return joined(collective("all_gather", std::array{x.tensor()}, attrs_of(axis), x.where()), at);
}

Tensor reduce_scatter(const Arg& x, const MeshAxis& axis, int dim, Reduction reduction,
                      const Tensor& initial) {
  Tensors in{parted(x, axis, axis_of(x, dim, "reduce_scatter"), "reduce_scatter")};
  if (initial.defined()) {
    in.push_back(initial);
  }
  return collective("reduce_scatter", in, attrs_of(axis).with("reduction", text_of(reduction)),
                    x.where());
}

Tensor all_to_all(const Arg& x, const MeshAxis& axis, int split_dim, int concat_dim) {
  const int from = axis_of(x, split_dim, "all_to_all");
  const int to = axis_of(x, concat_dim, "all_to_all");
  return joined(collective("all_to_all", std::array{parted(x, axis, from, "all_to_all")},
                           attrs_of(axis), x.where()),
                to);
}

Tensor permute(const Arg& x, const MeshAxis& axis, std::span<const int64_t> to) {
  return collective("permute", std::array{x.tensor()}, attrs_of(axis).with("to", text_of(to)),
                    x.where());
}

Tensor shift(const Arg& x, const MeshAxis& axis, int64_t by) {
  std::vector<int64_t> to(static_cast<size_t>(axis.size));
  for (int64_t rank = 0; rank < axis.size; ++rank) {
    to[static_cast<size_t>(rank)] = ((rank + by) % axis.size + axis.size) % axis.size;
  }
  return permute(x, axis, to);
}

Tensor axis_index(const MeshAxis& axis) {
  return apply(op_named("axis_index"), {}, attrs_of(axis), kHere)[0];
}

}  // namespace mstrain
