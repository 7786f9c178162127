#include "core/ops/control.h"

#include "core/ops/alias.h"
#include "core/ops/control_parts.h"

namespace mstrain {
namespace {

using namespace control;

constexpr SourceLocation kHere = SourceLocation::current();

constexpr auto kControl = OpKind::kControl;
constexpr auto kAny = DtypeClass::kAny;

LoopForm scan_form(const Attrs& attrs) {
  return {.body = attrs.graph("body"),
          .carries = static_cast<int>(attrs.integer("carries")),
          .constants = static_cast<int>(attrs.integer("constants")),
          .length = attrs.integer("length"),
          .reverse = attrs.flag("reverse"),
          .keep_carries = attrs.flag("keep_carries")};
}

LoopForm while_form(const Attrs& attrs) {
  const Graph& body = *attrs.graph("body");
  const int carries = static_cast<int>(body.outputs().size());
  return {.body = attrs.graph("body"),
          .condition = attrs.graph("condition"),
          .carries = carries,
          .constants = static_cast<int>(body.inputs().size()) - carries};
}

// Sampled by tests of their own: their attributes are programs.
constexpr OpDef kDefs[] = {
    {.name = "scan",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_scan,
     .jvp = jvp_scan,
     .vjp = vjp_scan,
     .batch = batch_scan,
     .precision = Precision::kAsWritten,
     .loop = scan_form},
    {.name = "while",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_while,
     .jvp = jvp_while,
     .vjp = vjp_while,
     .batch = batch_while,
     .precision = Precision::kAsWritten,
     .loop = while_form},
    {.name = "recompute",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_recompute,
     .jvp = jvp_by_decomposition,
     .vjp = vjp_recompute,
     .batch = batch_by_decomposition,
     .decompose = replay_body,
     .precision = Precision::kInside,
     .inlined = "body"},
    {.name = "custom_vjp",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_custom,
     .jvp = jvp_custom,
     .vjp = vjp_custom,
     .batch = batch_custom,
     .decompose = [](const Attrs& attrs,
                     std::span<const Tensor> in) { return replay(*attrs.graph("forward"), in); },
     .precision = Precision::kAsWritten,
     .inlined = "forward"},
    {.name = "barrier",
     .kind = kControl,
     .dtypes = kAny,
     .infer = infer_barrier,
     .jvp = derive_barrier,
     .vjp = derive_barrier,
     .batch = batch_leading,
     .precision = Precision::kAny,
     .alias = alias::each},
};

}  // namespace

const OpDef& control::kScan = kDefs[0];

std::span<const OpDef> control_ops() { return kDefs; }

Tensors scan_program(const GraphPtr& body, std::span<const Tensor> carries,
                     std::span<const Tensor> constants, std::span<const Tensor> xs, int64_t length,
                     bool reverse) {
  Parts inputs;
  inputs.add(carries);
  inputs.add(constants);
  inputs.add(xs);
  return scan_with(body, inputs.all, carries.size(), constants.size(), length, reverse, false);
}

Tensors while_program(const GraphPtr& condition, const GraphPtr& body,
                      std::span<const Tensor> carries, std::span<const Tensor> constants) {
  Parts inputs;
  inputs.add(carries);
  inputs.add(constants);
  return apply(kDefs[1], inputs.all, {{"condition", condition}, {"body", body}}, kHere);
}

Tensors recompute_program(const GraphPtr& body, std::span<const Tensor> inputs) {
  return apply(kDefs[2], inputs, {{"body", body}}, kHere);
}

Tensors custom_vjp_program(const GraphPtr& forward, const GraphPtr& backward, int64_t outputs,
                           std::span<const Tensor> inputs) {
  Tensors all = apply(kDefs[3], inputs,
                      {{"forward", forward}, {"backward", backward}, {"outputs", outputs}}, kHere);
  all.resize(static_cast<size_t>(outputs));
  return all;
}

Tensors barrier(std::span<const Tensor> values) { return apply(kDefs[4], values, {}, kHere); }

}  // namespace mstrain
