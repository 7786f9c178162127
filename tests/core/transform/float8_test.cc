#include "core/transform/float8.h"

#include "core/ops/build.h"
#include "core/ops/float8.h"
#include "core/transform/recompute.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

Tensor bf16_of(const Shape& shape, uint64_t seed, double scale = 1) {
  return cast(scale * random_tensor(shape, seed), Dtype::kBF16);
}
Tensors nothing_expected(size_t weights) { return Tensors(3 * weights, copy(full({}, 0))); }

struct Gradients {
  Tensor value;
  Tensors by_inputs, magnitudes;
};
// Of sum(f(inputs) * directions) in fp8.
template <class F>
Gradients gradients_of(const F& f, const Tensors& inputs, const Float8Products& products) {
  const auto objective = [&](const Tensors& x, const Tensors& expected) {
    const Tensor y = in_float8(f, {products.weights, expected, products.margin})(x);
    const Tensor directions = cast(4 * random_tensor(y.shape(), 99), Dtype::kF32);
    return sum(cast(y, Dtype::kF32) * directions);
  };
  auto [value, gradients] = value_and_grad<0, 1>(objective)(inputs, products.expected);
  return {value, std::get<0>(gradients), std::get<1>(gradients)};
}

double largest(const Tensor& x) { return item(max(abs(x))); }

// Each product by its definition: operands rounded, and multiplied in bf16.
TEST(InFloat8, MakesProductsAndTheirGradientsOfRoundedNumbers) {
  const Tensor x = bf16_of({3, 4, 16}, 1), w = bf16_of({32, 16}, 2, 0.1);
  const auto f = [](const Tensors& in) { return matmul(in[0], in[1], {.transpose_b = true}); };
  const Gradients found = gradients_of(f, {x, w}, {{1}, nothing_expected(1)});
  const Tensor ct = cast(cast(4 * random_tensor({3, 4, 32}, 99), Dtype::kF32), Dtype::kBF16);
  const auto rounded = [](const Tensor& t, Float8 format) {
    const Tensor most = cast(max(abs(t)), Dtype::kF32);
    return encode_float8(t, most, most, format, 0);
  };
  const Float8Tensor x8 = rounded(x, Float8::kE4M3), w8 = rounded(w, Float8::kE4M3),
                     ct8 = rounded(ct, Float8::kE5M2);
  EXPECT_EQ(to_doubles(found.by_inputs[0]),
            to_doubles(float8_product(ct8, w8, {"abn", "nk", "abk"})));
  EXPECT_EQ(to_doubles(found.by_inputs[1]),
            to_doubles(float8_product(x8, ct8, {"abk", "abn", "nk"})));
  EXPECT_EQ(item(found.magnitudes[0]), largest(x));
  EXPECT_EQ(item(found.magnitudes[1]), largest(w));
  EXPECT_EQ(item(found.magnitudes[2]), largest(ct));
  EXPECT_NE(item(found.value), item(gradients_of(f, {x, w}, {{}, {}}).value));
}

TEST(InFloat8, TakesUnitsFromWhatIsExpected) {
  const Tensor x = bf16_of({4, 16}, 1), w = bf16_of({16, 16}, 2);
  const auto f = [](const Tensors& in) { return matmul(in[0], in[1]); };
  const auto value = [&](double expected, int64_t margin = 0) {
    const Tensors all(3, copy(full({}, expected)));
    return item(gradients_of(f, {x, w}, {{1}, all, margin}).value);
  };
  EXPECT_EQ(value(0), value(0.99));
  EXPECT_NE(value(0), value(1e-3));  // most are cut off
  EXPECT_NE(value(0), value(1e5));   // few bits are left
  EXPECT_EQ(value(0.99, 4), value(16 * 0.99));
  EXPECT_EQ(value(0.99, 12), value(4096 * 0.99));
  EXPECT_NE(value(0.99, 12), value(0.99));
}

// Weights behind reshapes and transposes, and as the first operand; what is multiplied by no weight stays, and so does a weight's
// second product.
TEST(InFloat8, FindsTheFirstProductOfEachWeight) {
  const Tensor x = bf16_of({8, 16}, 1), v = bf16_of({2, 8, 16}, 2), w = bf16_of({16, 16}, 3);
  const auto f = [](const Tensors& in) {
    const Tensor y = matmul(in[0], reshape(in[1], {16, 16}), {.transpose_b = true});
    const Tensor z = matmul(in[2], tanh(y), {.transpose_b = true});  // [16, 8]
    return matmul(in[2], z) + matmul(z, matmul(in[0], in[0], {.transpose_b = true}));
  };
  Tensors captures;
  const Tensors in{x, v, w, copy(full({}, 0))};
  const GraphPtr program = trace_program(
      types_of(in),
      [&](std::span<const Tensor> leaves) {
        const Tensors all(6, leaves[3]);
        return Tensors{in_float8(f, {{1, 2}, all})(Tensors(leaves.begin(), leaves.begin() + 3))};
      },
      &captures);
  std::map<std::string, int> count;
  const std::function<void(const Graph&)> look = [&](const Graph& graph) {
    const std::vector<bool> live = graph.live();
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (live[id]) {
        ++count[std::string(graph.node(id).op->name)];
        if (graph.node(id).op->name == "custom_vjp") {
          look(*graph.node(id).attrs.graph("forward"));
        }
      }
    }
  };
  look(*program);
  EXPECT_EQ(count["float8_product"], 2);
  EXPECT_EQ(count["dot_general"], 3);
  const Gradients found = gradients_of(f, {x, v, w}, {{1, 2}, nothing_expected(2)});
  EXPECT_EQ(item(found.magnitudes[1]), largest(v));
  EXPECT_EQ(item(found.magnitudes[4]), largest(w));
  EXPECT_LE(item(found.magnitudes[3]), 1);  // of tanh
}

TEST(InFloat8, PassesThroughRecomputationBitForBit) {
  const Tensors in{bf16_of({4, 16}, 1), bf16_of({16, 32}, 2), bf16_of({32, 16}, 3)};
  const auto layer = [](const Tensors& x) { return matmul(tanh(matmul(x[0], x[1])), x[2]) + x[0]; };
  const auto again = [&](const Tensors& x) { return tanh(recompute(layer)(x)); };
  const auto once = [&](const Tensors& x) { return tanh(layer(x)); };
  const Float8Products products{{1, 2}, Tensors(6, copy(full({}, 2)))};
  const Gradients a = gradients_of(once, in, products), b = gradients_of(again, in, products);
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(to_doubles(a.by_inputs[i]), to_doubles(b.by_inputs[i])) << i;
  }
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(item(a.magnitudes[i]), item(b.magnitudes[i])) << i;
    EXPECT_GT(item(a.magnitudes[i]), 0) << i;
  }
}

}  // namespace
}  // namespace mstrain
