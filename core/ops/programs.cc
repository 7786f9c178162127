// Programs as functions: recompute, custom_vjp, barrier.
#include <algorithm>

#include "core/ops/control_parts.h"

namespace mstrain::control {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

}  // namespace

Types infer_recompute(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  expect_types("input", body.types(body.inputs()), in);
  return body.types(body.outputs());
}

Tensors replay_body(const Attrs& attrs, std::span<const Tensor> in) {
  return replay(*attrs.graph("body"), in);
}

Tensors vjp_recompute(const Application& node, std::span<const Tensor> ct) {
  Parts held;
  held.add(node.inputs);
  std::vector<size_t> nonzero;
  for (size_t i = 0; i < ct.size(); ++i) {
    if (ct[i].defined()) {
      nonzero.push_back(i);
      held.all.push_back(ct[i]);
    }
  }
  const Tensors late = barrier(held.all);
  const size_t n = node.inputs.size();
  Tensors late_ct(ct.size());
  for (size_t i = 0; i < nonzero.size(); ++i) {
    late_ct[nonzero[i]] = late[n + i];
  }
  return vjp_by_decomposition({node.op, node.attrs, std::span(late).first(n), node.outputs},
                              late_ct);
}

Types infer_custom(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& forward = *attrs.graph("forward");
  const Graph& backward = *attrs.graph("backward");
  const auto n = static_cast<size_t>(attrs.integer("outputs"));
  expect_types("input", forward.types(forward.inputs()), in);
  const Types all = forward.types(forward.outputs());
  if (n > all.size()) {
    throw ShapeError(fmt::format("{} results of a function that gives {}", attrs.integer("outputs"),
                                 all.size()));
  }
  Types given(all.begin() + static_cast<int64_t>(n), all.end());
  given.insert(given.end(), all.begin(), all.begin() + static_cast<int64_t>(n));
  expect_types("input of the backward function", given, backward.types(backward.inputs()));
  expect_types("cotangent", in, backward.types(backward.outputs()));
  return all;
}

Tensors jvp_custom(const Application&, std::span<const Tensor>) {
  fail(
      "custom_vjp: a function with a reverse rule of its own has no forward-mode derivative; take "
      "second derivatives in "
      "reverse mode, as in jacobian(grad(f))");
}

// The results by the function's own rule; the residuals, which second derivatives come to, by that of what computes them.
Tensors vjp_custom(const Application& node, std::span<const Tensor> ct) {
  const auto n = static_cast<size_t>(node.attrs.integer("outputs"));
  const auto any = [](std::span<const Tensor> tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.defined(); });
  };
  Tensors result(node.inputs.size());
  if (any(ct.first(n))) {
    Parts given;
    given.add(node.outputs.subspan(n));
    given.add(or_zeros(ct.first(n), node.outputs));
    result = replay(*node.attrs.graph("backward"), given.all);
  }
  if (any(ct.subspan(n))) {
    Tensors residuals(ct.begin(), ct.end());
    std::fill(residuals.begin(), residuals.begin() + static_cast<int64_t>(n), Tensor());
    const Tensors through = vjp_by_decomposition(node, residuals);
    for (size_t i = 0; i < result.size(); ++i) {
      if (is_floating(node.inputs[i].dtype())) {
        result[i] = add_or_zero(result[i], through[i]);
      }
    }
  }
  return result;
}

Tensors batch_custom(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                     std::span<const bool> batched, int64_t size) {
  const auto lift = [&](const Graph& graph) {
    Types types;
    for (const Value& value : graph.inputs()) {
      types.push_back(stacked(graph.type(value), size));
    }
    const std::unique_ptr<bool[]> all(new bool[types.size() + 1]);
    std::fill(all.get(), all.get() + types.size(), true);
    return closed_program(types, [&](std::span<const Tensor> args) {
      return replay_batched(graph, args, std::span<const bool>(all.get(), args.size()), size);
    });
  };
  return apply(op, batch_all(in, batched, size),
               attrs.with("forward", lift(*attrs.graph("forward")))
                   .with("backward", lift(*attrs.graph("backward"))),
               kHere);
}

Types infer_barrier(std::span<const TensorType> in, const Attrs&) {
  return Types(in.begin(), in.end());
}

Tensors derive_barrier(const Application&, std::span<const Tensor> given) {
  return Tensors(given.begin(), given.end());
}

}  // namespace mstrain::control
