#include "core/ops/elementwise.h"

#include <array>

#include "core/backends/reference/kernels.h"

namespace mstrain::reference {
namespace {

// Floating types in double, all others in 64-bit integers that wrap when they are stored.
void run(const Call& call) {
  const ElementwiseOp& row = *elementwise_op(call.op);
  const Elements& out = call.out[0];
  const size_t arity = call.in.size();
  const bool floating = is_floating(call.in.back().dtype());
  for (int64_t i = 0; i < out.count(); ++i) {
    if (floating) {
      std::array<double, 3> x{};
      for (size_t k = 0; k < arity; ++k) {
        x[k] = call.in[k].number(i);
      }
      out.set(i, row.evaluate(x.data()));
    } else {
      std::array<int64_t, 3> x{};
      for (size_t k = 0; k < arity; ++k) {
        x[k] = call.in[k].integer(i);
      }
      out.set_integer(i, row.evaluate_integers(x.data()));
    }
  }
}

}  // namespace

void register_elementwise() {
  for (const OpDef& op : elementwise_ops()) {
    define<run>(op.name);
  }
}

}  // namespace mstrain::reference
