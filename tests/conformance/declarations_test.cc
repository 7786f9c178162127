// No operation may be silent about a rule that others rely on.
#include <gmock/gmock.h>

#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

using DeclaredOp = OpTest;

bool is_control(const OpDef& op) { return op.kind == OpKind::kControl || op.name == "input"; }

void expect_rules(const OpDef& op) {
  EXPECT_NE(op.infer, nullptr);
  EXPECT_TRUE(op.jvp != nullptr || op.vjp != nullptr || op.decompose != nullptr)
      << "states no derivative; zero_derivative is a statement";
  if (op.name != "input") {
    EXPECT_TRUE(op.batch != nullptr || op.decompose != nullptr) << "states no batching rule";
  }
  if (!is_control(op)) {
    EXPECT_NE(op.cost, nullptr) << "states no cost";
    ASSERT_NE(op.samples, nullptr) << "states no samples";
    for (Dtype dtype : kAllDtypes) {
      if (accepts(op.dtypes, dtype)) {
        // A range of bool is no range.
        EXPECT_TRUE(!op.samples(dtype).empty() || (op.name == "iota" && dtype == Dtype::kBool))
            << "states no samples for " << name_of(dtype);
      }
    }
  }
}

void expect_accepted_samples(const OpDef& op) {
  for (const Case& it : cases_of(op)) {
    SCOPED_TRACE(to_string(it));
    Types types;
    for (const SampleInput& input : it.sample.inputs) {
      types.push_back(input.type);
    }
    const Types outputs = op.infer(types, it.sample.attrs);
    EXPECT_FALSE(outputs.empty());
    const Cost cost = op.cost(types, outputs, it.sample.attrs);
    EXPECT_GE(cost.flops, 0);
    EXPECT_GE(cost.bytes, 0);
  }
}

// Empty tensors are where loops and divisions go wrong.
void expect_empty_sample(const OpDef& op) {
  bool found = false;
  for (const Sample& sample : op.samples(usual_dtype(op))) {
    Types types;
    for (const SampleInput& input : sample.inputs) {
      types.push_back(input.type);
    }
    for (const TensorType& type : op.infer(types, sample.attrs)) {
      found = found || type.elements() == 0;
    }
    for (const TensorType& type : types) {
      found = found || type.elements() == 0;
    }
  }
  EXPECT_TRUE(found) << "states no sample with an empty tensor";
}

TEST_P(DeclaredOp, StatesItsRulesAndSamples) {
  expect_rules(op());
  if (!is_control(op()) && !HasFailure()) {
    expect_accepted_samples(op());
    if (op().name != "iota" && op().name != "axis_index") {  // one has a length, one is a number
      expect_empty_sample(op());
    }
  }
}

MSTRAIN_FOR_OPS(DeclaredOp, [](const OpDef&) { return true; });

TEST(Declarations, TheTableHasEveryOperationThatIsPromised) {
  EXPECT_GE(all_ops().size(), 180U);
  const std::vector<std::string> names = names_of_ops([](const OpDef&) { return true; });
  for (const char* name : {"add",
                           "adamw",
                           "adamw_stored",
                           "argmax",
                           "argmin",
                           "argsort",
                           "attention",
                           "attention_grad",
                           "broadcast",
                           "cast",
                           "cholesky",
                           "coded_product",
                           "concat",
                           "conv2d",
                           "conv2d_input_grad",
                           "conv2d_weight_grad",
                           "copy",
                           "cross_entropy",
                           "cross_entropy_grad",
                           "cummax",
                           "cummin",
                           "cumprod",
                           "cumsum",
                           "decode_float8",
                           "decode_rows",
                           "dequantize_blocks",
                           "diagonal",
                           "dot_general",
                           "eigh",
                           "encode_float8",
                           "fft",
                           "flip",
                           "float8_product",
                           "full",
                           "gather",
                           "iota",
                           "irfft",
                           "layer_norm",
                           "layer_norm_grad",
                           "linear_cross_entropy",
                           "linear_cross_entropy_grad",
                           "log_softmax",
                           "max_pool",
                           "avg_pool",
                           "one_hot",
                           "pad",
                           "quantize_blocks",
                           "qr",
                           "random",
                           "reduce_max",
                           "reduce_min",
                           "reduce_prod",
                           "reduce_sum",
                           "reshape",
                           "rfft",
                           "rms_norm",
                           "rms_norm_grad",
                           "rotary",
                           "scan",
                           "scatter_add",
                           "scatter_set",
                           "searchsorted",
                           "slice",
                           "slogdet",
                           "softmax",
                           "softmax_grad",
                           "solve",
                           "sort",
                           "split",
                           "stochastic_round",
                           "sum_squares",
                           "svd",
                           "take_along",
                           "topk",
                           "transpose",
                           "triangular_solve",
                           "where",
                           "while"}) {
    EXPECT_THAT(names, testing::Contains(name));
  }
}

}  // namespace
}  // namespace mstrain
