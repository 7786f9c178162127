// Derivatives and batches of what moves elements.
#include "core/ops/build.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/shape_rules.h"

namespace mstrain::shape_rules {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Shape shifted(const Shape& axes) {
  Shape result;
  for (int64_t axis : axes) {
    result.push_back(axis + 1);
  }
  return result;
}

}  // namespace

// Tangents of a linear operation with one input are the operation itself.
Tensors jvp_same(const Application& node, std::span<const Tensor> tangents) {
  return apply(node.op, tangents, node.attrs, kHere);
}

// Pads with zeros, where the primal padded with its value.
Tensors jvp_pad(const Application& node, std::span<const Tensor> tangents) {
  return apply(node.op, tangents, node.attrs.with("value", 0.0), kHere);
}

Tensors jvp_concat(const Application& node, std::span<const Tensor> tangents) {
  return apply(node.op, or_zeros(tangents, node.inputs), node.attrs, kHere);
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
  const Tensors parts = or_zeros(ct, node.outputs);
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

Tensors vjp_copy(const Application&, std::span<const Tensor> ct) { return {ct[0]}; }
Tensors batch_copy(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                   std::span<const bool>, int64_t) {
  return apply(op, in, attrs, kHere);
}

}  // namespace mstrain::shape_rules
