// Elementwise operations one by one: programs of a single step.
#include "core/ops/elementwise.h"
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/tile_program.h"

namespace mstrain::cpu {
namespace {

Kernel prepare(const KernelRequest& request) { return tile_kernel(elementwise_program(request)); }

}  // namespace

Kernel cast_kernel(const ViewType& view, Dtype dtype, int threads) {
  const ViewType out = ViewType::dense({dtype, view.type.shape});
  return prepare({*find_op("cast"), {}, std::span(&view, 1), std::span(&out, 1), threads});
}

void register_elementwise() {
  for (const OpDef& op : elementwise_ops()) {
    if (has_tile_loop(op, accepts(op.dtypes, Dtype::kF32) ? Dtype::kF32 : Dtype::kI64)) {
      register_kernel(table(), op.name, {.prepare = prepare, .strided_inputs = true});
    }
  }
}

}  // namespace mstrain::cpu
