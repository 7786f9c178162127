#include "core/ops/offload.h"

#include <array>

#include "core/ops/build.h"
#include "core/ops/samples.h"
#include "core/ops/shape_rules.h"

namespace mstrain {
namespace {

using namespace shape_rules;

Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs, const Attrs&) {
  return elementwise_cost(inputs, outputs, 0);
}

// Not movement: it takes time, and nothing is moved past it.
constexpr OpDef between_memories(std::string_view name) {
  return {.name = name,
          .kind = OpKind::kControl,
          .dtypes = DtypeClass::kAny,
          .infer = infer_copy,
          .jvp = jvp_same,
          .vjp = vjp_copy,
          .batch = batch_copy,
          .cost = cost,
          .layout = layout_copy,
          .samples = samples::copy,
          .precision = Precision::kAny};
}

constexpr std::array kDefs = {between_memories("stow"), between_memories("fetch")};

}  // namespace

std::span<const OpDef> offload_ops() { return kDefs; }
const OpDef& stow_op() { return kDefs[0]; }
const OpDef& fetch_op() { return kDefs[1]; }

Tensor stow(const Arg& x) { return apply1(stow_op(), {x.tensor()}, {}, x.where()); }
Tensor fetch(const Arg& x) { return apply1(fetch_op(), {x.tensor()}, {}, x.where()); }

}  // namespace mstrain
