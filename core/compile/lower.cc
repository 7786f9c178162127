#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/compile/widen.h"
#include "core/ir/error_place.h"
#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// What the backward pass converts to f32 is not what the forward pass has converted: else the wide form, not the tensor
// of 16 bits, would be kept from the one to the other.
Tensors operands_of(const RewriteNode& it) {
  Tensors operands(it.inputs.begin(), it.inputs.end());
  if (it.node.place.part == StepPart::kBackward) {
    for (Tensor& x : operands) {
      x = is_short(x.dtype()) ? identity(x) : x;
    }
  }
  return operands;
}

}  // namespace

GraphPtr lower(const Graph& graph, const Backend* backend) {
  return rewrite(graph, [&](const RewriteNode& it) -> std::optional<Tensors> {
    const Types types = types_of(it.inputs);
    if (has_kernel(backend, *it.node.op, it.node.attrs, types, it.node.outputs)) {
      return std::nullopt;
    }
    if (auto wide = apply_widened(*it.node.op, operands_of(it), it.node.attrs, it.node.outputs,
                                  backend, it.node.where)) {
      return wide;
    }
    if (it.node.op->decompose == nullptr) {
      return std::nullopt;
    }
    const WhereScope where(it.node.where);
    Tensors captures;
    const GraphPtr body = trace_program(
        types,
        [&](std::span<const Tensor> inputs) {
          return it.node.op->decompose(it.node.attrs, inputs);
        },
        &captures);
    if (body->outputs().empty()) {
      return std::nullopt;
    }
    return replay(*lower(*body, backend), it.inputs);
  });
}

}  // namespace mstrain
