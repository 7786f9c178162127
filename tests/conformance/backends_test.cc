// Every operation has a fast kernel: none is left to the reference in silence.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/ir/fallback.h"
#include "core/ops/accumulation.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

using FastOp = OpTest;

bool has_kernel(const OpDef& op, const Case& it) {
  Types types;
  std::vector<ViewType> in, out;
  for (const SampleInput& input : it.sample.inputs) {
    types.push_back(input.type);
    in.push_back(ViewType::dense(input.type));
  }
  for (const TensorType& type : op.infer(types, it.sample.attrs)) {
    out.push_back(ViewType::dense(type));
  }
  return usable_kernel(backend_named("cpu"), {op, it.sample.attrs, in, out, 2}) != nullptr;
}

// Operands of 16 bits may be computed with as f32.
bool is_widened(const Case& it) {
  const auto& inputs = it.sample.inputs;
  const bool any = std::any_of(inputs.begin(), inputs.end(),
                               [](const SampleInput& input) { return is_short(input.type.dtype); });
  return any && has_kernel(*it.op, cases_of(*it.op, std::array{Dtype::kF32})[it.index]);
}

// f64 is the type of oracles: these leave it to the reference.
bool is_left(const Case& it) {
  static constexpr std::string_view kOps[] = {"conv2d", "conv2d_input_grad", "conv2d_weight_grad",
                                              "quantize_blocks", "stochastic_round"};
  return it.dtype == Dtype::kF64 &&
         std::find(std::begin(kOps), std::end(kOps), it.op->name) != std::end(kOps);
}

TEST_P(FastOp, RunsOnTheCpuBackend) {
  for (const Case& it : cases_of(op())) {
    EXPECT_NE(is_left(it), op().decompose != nullptr || has_kernel(op(), it) || is_widened(it))
        << to_string(it);
  }
}

// Most movement is strides and needs no kernel.
MSTRAIN_FOR_OPS(FastOp, [](const OpDef& op) {
  return find_kernel(backend_named("reference"), op) != nullptr &&
         (op.kind != OpKind::kMovement || op.name == "reshape");
});

}  // namespace
}  // namespace mstrain
