// Groups of operations in one pass over memory.
#include <algorithm>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/tile_program.h"
#include "core/ops/elementwise.h"
#include "core/ops/fused.h"

namespace mstrain::cpu {
namespace {

// Every other group runs operation by operation.
bool supports(const KernelRequest& request) {
  const Graph& body = *request.attrs.graph("body");
  const FusedExtent extent{request.attrs.integer("rows"), request.attrs.integer("n")};
  if (extent.elements() == 0) {
    return false;
  }
  const std::vector<bool> live = body.live();
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (live[id] && node.op != &kInputOp &&
        !fused_role(*node.op, node.attrs, body.types(node.inputs), node.outputs, extent,
                    kLongestFusedRow)) {
      return false;
    }
    if (live[id] && node.op->kind == OpKind::kElementwise) {
      const Value& worked = node.inputs[elementwise_op(*node.op)->worked_input()];
      if (!has_tile_loop(*node.op, body.type(worked).dtype)) {
        return false;
      }
    }
  }
  // A sum over rows has one place to go to.
  std::vector<Value> outputs = body.outputs();
  std::sort(outputs.begin(), outputs.end());
  return std::adjacent_find(outputs.begin(), outputs.end()) == outputs.end();
}

Kernel prepare(const KernelRequest& request) { return tile_kernel(body_program(request)); }

}  // namespace

void register_fused() {
  register_kernel(table(), "fused",
                  {.prepare = prepare, .supports = supports, .strided_inputs = true});
}

}  // namespace mstrain::cpu
