#include "core/compile/passes.h"

#include <map>

#include "core/exec/execute.h"
#include "core/ops/build.h"
#include "core/ops/einsum.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using Function = std::function<Tensors(std::span<const Tensor>)>;

// How often the graph has an operation, or a product with such epilogues.
std::map<std::string, int> operations_of(const Graph& graph) {
  std::map<std::string, int> counts;
  const std::vector<bool> live = graph.live();
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const Attr* epilogue = node.attrs.find("epilogue");
    std::string name(node.op->name);
    if (epilogue != nullptr) {
      name += ": " + std::get<std::string>(*epilogue);
    }
    if (live[id]) {
      ++counts[name];
    }
  }
  return counts;
}

std::map<std::string, int> fused(const Types& types, const Function& f) {
  Tensors captures;
  return operations_of(*fuse_products(*trace_program(types, f, &captures)));
}

const TensorType kA{Dtype::kF32, {5, 7}};
const TensorType kB{Dtype::kF32, {7, 6}};
const TensorType kC{Dtype::kF32, {5, 6}};
const TensorType kBias{Dtype::kF32, {6}};

TEST(FuseProducts, JoinsABiasAndATensorThatNobodyElseReads) {
  const auto counts = fused({kA, kB, kBias, kC}, [](std::span<const Tensor> x) {
    return Tensors{matmul(x[0], x[1]) + x[2] + x[3]};
  });
  EXPECT_EQ(counts.at("dot_general: bias add"), 1);
  EXPECT_FALSE(counts.contains("dot_general"));
  EXPECT_FALSE(counts.contains("add"));
}

TEST(FuseProducts, JoinsAScaleAnActivationWithoutABiasAndAnAddendAfterIt) {
  const auto counts = fused({kA, kB, kC}, [](std::span<const Tensor> x) {
    return Tensors{gelu(matmul(x[0], x[1]) * 0.25) + x[2], relu(matmul(x[0], 2 * x[1]))};
  });
  EXPECT_EQ(counts.at("dot_general: scale gelu add"), 1);
  EXPECT_EQ(counts.at("dot_general: relu"), 1);
  EXPECT_FALSE(counts.contains("gelu"));
}

TEST(FuseProducts, JoinsABiasThatHasHeads) {
  const TensorType x{Dtype::kF32, {2, 5, 7}};
  const TensorType w{Dtype::kF32, {7, 3, 2, 4}};
  const TensorType bias{Dtype::kF32, {3, 2, 4}};
  const auto counts = fused({x, w, bias}, [](std::span<const Tensor> in) {
    return Tensors{einsum("btc,cshd->btshd", {in[0], in[1]}) + in[2]};
  });
  EXPECT_EQ(counts.at("dot_general: bias"), 1);
  EXPECT_FALSE(counts.contains("reshape"));
}

TEST(FuseProducts, LooksThroughShapes) {
  const TensorType sum{Dtype::kF32, {5, 2, 3}};
  const auto counts = fused({kA, kB, sum}, [](std::span<const Tensor> x) {
    return Tensors{x[2] + reshape(matmul(x[0], x[1]), {5, 2, 3})};
  });
  EXPECT_EQ(counts.at("dot_general: add"), 1);
}

TEST(FuseProducts, LeavesAProductThatIsReadTwice) {
  const auto counts = fused({kA, kB, kC}, [](std::span<const Tensor> x) {
    const Tensor product = matmul(x[0], x[1]);
    return Tensors{product + x[2], exp(product)};
  });
  EXPECT_EQ(counts.at("dot_general"), 1);
  EXPECT_EQ(counts.at("add"), 1);
}

TEST(FuseProducts, LeavesAnAddendThatIsReadAgain) {
  const auto counts = fused({kA, kB, kC}, [](std::span<const Tensor> x) {
    const Tensor stream = exp(x[2]);
    return Tensors{matmul(x[0], x[1]) + stream, sin(stream)};
  });
  EXPECT_EQ(counts.at("add"), 1);
}

// The sum of two products: one of them is the addend of the other.
TEST(FuseProducts, AddsTheSecondProductToTheFirst) {
  const auto counts = fused({kA, kB, kA}, [](std::span<const Tensor> x) {
    return Tensors{matmul(x[0], x[1]) + matmul(x[2], x[1])};
  });
  EXPECT_EQ(counts.at("dot_general"), 1);
  EXPECT_EQ(counts.at("dot_general: add"), 1);
}

TEST(FuseProducts, JoinsAnActivationThatAloneReadsTheSum) {
  const auto alone = fused({kA, kB, kBias}, [](std::span<const Tensor> x) {
    return Tensors{gelu_tanh(matmul(x[0], x[1]) + x[2])};
  });
  EXPECT_EQ(alone.at("dot_general: bias gelu_tanh"), 1);
  EXPECT_FALSE(alone.contains("gelu_tanh"));
  const auto kept = fused({kA, kB, kBias}, [](std::span<const Tensor> x) {
    const Tensor before = matmul(x[0], x[1]) + x[2];
    return Tensors{gelu_tanh(before), before};
  });
  EXPECT_EQ(kept.at("dot_general: bias"), 1);
  EXPECT_EQ(kept.at("gelu_tanh"), 1);
}

// Training: the backward pass reads what the activation is of, and multiplies a product by the derivative.
TEST(FuseProducts, JoinsActivationsAndTheirDerivativesOfSixteenBitsWhereTheBackEndHasThem) {
  const TensorType x{Dtype::kBF16, {5, 7}}, w{Dtype::kBF16, {7, 8}}, v{Dtype::kBF16, {8, 7}};
  const auto counts = [&](bool narrow) {
    Tensors captures;
    const GraphPtr graph = trace_program(
        {{x, w, v, x}},
        [](std::span<const Tensor> in) {
          const Tensor before = matmul(in[0], in[1]);
          const Tensor after = gelu_tanh(before);
          return Tensors{matmul(after, in[2]), silu(matmul(in[3], in[1])),
                         apply1(*find_op("gelu_tanh_grad"),
                                {before, matmul(in[3], in[2], {.transpose_b = true})}, {},
                                SourceLocation::current())};
        },
        &captures);
    FuseOptions options;
    options.limits.narrow_epilogues = narrow;
    return operations_of(*fuse_products(*graph, options));
  };
  const auto joined = counts(true);
  EXPECT_EQ(joined.at("dot_general: keep gelu_tanh"), 1);
  EXPECT_EQ(joined.at("dot_general: gelu_tanh_grad"), 1);
  EXPECT_EQ(joined.at("dot_general: silu"), 1);
  EXPECT_EQ(joined.at("dot_general"), 1);
  EXPECT_FALSE(joined.contains("gelu_tanh"));
  EXPECT_EQ(counts(false).at("dot_general"), 4);
}

TEST(FuseProducts, EachRuleCanBeSwitchedOff) {
  const auto counts = [](const std::string& off) {
    Tensors captures;
    const GraphPtr graph = trace_program(
        {{kA, kB, kBias, kC}},
        [](std::span<const Tensor> x) {
          return Tensors{matmul(x[0], x[1]) + x[2] + x[3], silu(matmul(x[0], 2 * x[1]) + x[2])};
        },
        &captures);
    return operations_of(*fuse_products(*graph, {.off = {off}}));
  };
  EXPECT_EQ(counts("").at("dot_general: bias add"), 1);
  EXPECT_EQ(counts("").at("dot_general: bias silu"), 1);
  EXPECT_FALSE(counts("bias").contains("dot_general: bias add"));
  EXPECT_FALSE(counts("addend").contains("dot_general: bias add"));
  EXPECT_FALSE(counts("activation").contains("dot_general: bias silu"));
  EXPECT_TRUE(counts("activation").contains("silu"));
}

TEST(FuseProducts, ChangesNoValue) {
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c) {
    const Tensor sum = matmul(a, b) + bias + c;
    return std::pair(sum, matmul(sum, b, {.transpose_b = true}) + a);
  };
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16}) {
    const auto of = [&](const TensorType& type, uint64_t seed) {
      return cast(random_tensor(type.shape, seed), dtype);
    };
    const Tensor a = of(kA, 1), b = of(kB, 2), bias = of(kBias, 3), c = of(kC, 4);
    const auto [sum, back] = f(a, b, bias, c);
    const auto [fused_sum, fused_back] = jit(f)(a, b, bias, c);
    const double tolerance = dtype == Dtype::kF64 ? 1e-14 : dtype == Dtype::kF32 ? 1e-6 : 0.02;
    expect_near(fused_sum, sum, tolerance);
    expect_near(fused_back, back, tolerance * 8);  // of seven products of such sums
  }
}

}  // namespace
}  // namespace mstrain
