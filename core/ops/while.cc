// A loop with a condition: its types, derivative and batching.
#include <algorithm>

#include "core/ops/control_parts.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain::control {

Types infer_while(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  const Graph& condition = *attrs.graph("condition");
  expect_types("input", body.types(body.inputs()), in);
  expect_types("condition's input", condition.types(condition.inputs()), in);
  expect_types("condition", Types{{Dtype::kBool, {}}}, condition.types(condition.outputs()));
  const Types out = body.types(body.outputs());
  expect_types("carry", in.first(std::min(in.size(), out.size())), out);
  return out;
}

Tensors jvp_while(const Application& node, std::span<const Tensor> given) {
  const GraphPtr& body = node.attrs.graph("body");
  const GraphPtr& condition = node.attrs.graph("condition");
  const size_t n = body->outputs().size();
  const std::span<const Tensor> in = node.inputs;
  const Tensors tangents = or_zeros(given, in);
  const auto fc = floating(in.first(n));
  const auto fk = floating(in.subspan(n));
  const size_t constants = in.size() - n;
  Parts carries;
  carries.add(in.first(n));
  carries.add(pick(std::span(tangents).first(n), fc));
  Parts rest;
  rest.add(in.subspan(n));
  rest.add(pick(std::span(tangents).subspan(n), fk));
  Parts inputs = carries;
  inputs.add(rest.all);
  const Types types = types_of(inputs.all);
  const auto primal_of = [&](std::span<const Tensor> args) {
    Parts primal;
    primal.add(args.first(n));
    primal.add(args.subspan(n + fc.size(), constants));
    return primal.all;
  };
  const GraphPtr both = closed_program(types, [&](std::span<const Tensor> args) {
    const Tensors primal = primal_of(args);
    Parts tangent;
    tangent.add(place(args.subspan(n, fc.size()), fc, n));
    tangent.add(place(args.subspan(n + fc.size() + constants), fk, constants));
    const Tensors out = replay(*body, primal);
    const Tensors pushed = or_zeros(push_forward(primal, tangent.all, out), out);
    Parts result;
    result.add(out);
    result.add(pick(pushed, fc));
    return result.all;
  });
  const GraphPtr test = closed_program(
      types, [&](std::span<const Tensor> args) { return replay(*condition, primal_of(args)); });
  const Tensors out = while_program(test, both, carries.all, rest.all);
  return place(std::span(out).subspan(n), fc, n);
}

Tensors vjp_while(const Application&, std::span<const Tensor>) {
  fail(
      "while: a loop of unknown length has no reverse-mode derivative; use scan with a fixed "
      "length, or jvp");
}

// The loop runs until no element wants to go on; finished elements keep their values.
Tensors batch_while(const OpDef&, const Attrs& attrs, std::span<const Tensor> in,
                    std::span<const bool> batched, int64_t size) {
  const GraphPtr& body = attrs.graph("body");
  const GraphPtr& condition = attrs.graph("condition");
  const size_t n = body->outputs().size();
  const Tensors inputs = batch_all(in, batched, size);
  const Types types = types_of(inputs);
  const std::unique_ptr<bool[]> all(new bool[inputs.size() + 1]);
  std::fill(all.get(), all.get() + inputs.size(), true);
  const std::span<const bool> flags(all.get(), inputs.size());
  const auto goes_on = [&](std::span<const Tensor> args) {
    return replay_batched(*condition, args, flags, size)[0];
  };
  const GraphPtr test = closed_program(types, [&](std::span<const Tensor> args) {
    return Tensors{greater(max(cast(goes_on(args), Dtype::kI32)), 0)};
  });
  const GraphPtr step = closed_program(types, [&](std::span<const Tensor> args) {
    const Tensor go = goes_on(args);
    Tensors next = replay_batched(*body, args, flags, size);
    for (size_t i = 0; i < next.size(); ++i) {
      Shape shape = go.shape();
      while (shape.rank() < next[i].rank()) {
        shape.push_back(1);
      }
      next[i] = where(reshape(go, shape), next[i], args[i]);
    }
    return next;
  });
  return while_program(test, step, std::span(inputs).first(n), std::span(inputs).subspan(n));
}

}  // namespace mstrain::control
