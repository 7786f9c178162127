#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/compile/widen.h"
#include "core/ir/kernel.h"
#include "core/ops/accumulation.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// Whether the backend, or the reference backend in its place, runs the operation as it is.
bool has_kernel(const RewriteNode& it, Backend backend) {
  const OpDef& op = *it.node.op;
  const KernelEntry* kernel = find_kernel(backend, op);
  if (kernel == nullptr || kernel->supports == nullptr) {
    return kernel != nullptr;
  }
  std::vector<ViewType> inputs;
  std::vector<ViewType> outputs;
  for (const Tensor& input : it.inputs) {
    inputs.push_back(ViewType::dense(input.type()));
  }
  for (const TensorType& type : it.node.outputs) {
    outputs.push_back(ViewType::dense(type));
  }
  return kernel->supports({op, it.node.attrs, inputs, outputs, 1});
}

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

GraphPtr lower(const Graph& graph, Backend backend) {
  const Backend kernels = backend == Backend::kNull ? Backend::kCpu : backend;
  return rewrite(graph, [&](const RewriteNode& it) -> std::optional<Tensors> {
    if (has_kernel(it, kernels)) {
      return std::nullopt;
    }
    if (auto wide = apply_widened(*it.node.op, operands_of(it), it.node.attrs, it.node.outputs,
                                  kernels, it.node.where)) {
      return wide;
    }
    if (it.node.op->decompose == nullptr) {
      return std::nullopt;
    }
    Types types;
    for (const Tensor& input : it.inputs) {
      types.push_back(input.type());
    }
    Tensors captures;
    const GraphPtr body = trace_program(
        types,
        [&](std::span<const Tensor> inputs) {
          return it.node.op->decompose(it.node.attrs, inputs);
        },
        &captures);
    return replay(*lower(*body, backend), it.inputs);
  });
}

}  // namespace mstrain
