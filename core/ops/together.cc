#include "core/ops/together.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"

namespace mstrain {
namespace {

template <class F>
void for_members(const Graph& body, F f) {
  for (NodeId id = 0; id < body.size(); ++id) {
    if (body.node(id).op != &kInputOp) {
      f(body.node(id));
    }
  }
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  const Types expected = body.types(body.inputs());
  if (!std::equal(in.begin(), in.end(), expected.begin(), expected.end())) {
    throw ShapeError("the inputs are not those of the body");
  }
  for_members(body, [&](const Node& node) {
    for (const Value& value : node.inputs) {
      if (body.node(value.node).op != &kInputOp) {
        throw ShapeError(
            fmt::format("{} reads what {} makes", node.op->name, body.node(value.node).op->name));
      }
    }
  });
  return body.types(body.outputs());
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  return replay(*attrs.graph("body"), in);
}

Cost cost(std::span<const TensorType>, std::span<const TensorType>, const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  Cost total;
  for_members(body, [&](const Node& node) {
    if (node.op->cost != nullptr) {
      const Cost own = node.op->cost(body.types(node.inputs), node.outputs, node.attrs);
      total.flops += own.flops;
      total.bytes += own.bytes;
    }
  });
  return total;
}

std::string title(const Attrs& attrs) {
  int64_t count = 0;
  std::vector<std::string> titles;
  for_members(*attrs.graph("body"), [&](const Node& node) {
    ++count;
    const std::string own = title_of(*node.op, node.attrs);
    if (std::ranges::find(titles, own) == titles.end()) {
      titles.push_back(own);
    }
  });
  return fmt::format("{} together: {}", count, fmt::join(titles, ", "));
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  for (const int64_t n : {0, 5, 1100}) {
    const Types types{{t, {3, n}}, {t, {3, n}}, {t, {n}}};
    Tensors captures;
    const GraphPtr body = trace_program(
        types,
        [](std::span<const Tensor> in) {
          return Tensors{in[0] + in[1], sum_squares(in[2]), sum(in[0], {1}), in[1] * in[0]};
        },
        &captures);
    Sample sample{{}, {{"body", body}}};
    for (const TensorType& type : types) {
      sample.inputs.push_back({type, 0.2, 1.5});
    }
    result.push_back(std::move(sample));
  }
  return result;
}

constexpr OpDef kDefs[] = {{.name = "together",
                            .infer = infer,
                            .jvp = jvp_by_decomposition,
                            .vjp = vjp_by_decomposition,
                            .batch = batch_by_decomposition,
                            .decompose = decompose,
                            .cost = cost,
                            .layout = layout::whole,
                            .samples = samples,
                            .title = title}};

}  // namespace

std::span<const OpDef> together_ops() { return kDefs; }
const OpDef& together_op() { return kDefs[0]; }

}  // namespace mstrain
