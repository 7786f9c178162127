#include "core/transform/precision.h"

#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/index.h"
#include "core/ops/norm.h"
#include "core/ops/softmax.h"
#include "core/transform/recompute.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;

Tensor bf16(const Shape& shape, uint64_t seed) {
  return cast(random_tensor(shape, seed), Dtype::kBF16);
}

// The types in which the operation `name` runs, in the order of the program: "bf16[2, 3] bf16[3] -> f32[]".
std::vector<std::string> types_of_op(const std::function<Tensor(const Tensors&)>& f,
                                     const Tensors& inputs, std::string_view name) {
  Tensors captures;
  const GraphPtr graph = trace_program(
      types_of(inputs),
      [&](std::span<const Tensor> in) {
        return Tensors{in_precision(Dtype::kBF16, f)(Tensors(in.begin(), in.end()))};
      },
      &captures);
  const std::vector<bool> live = graph->live();
  std::vector<std::string> found;
  for (NodeId id = 0; id < graph->size(); ++id) {
    const Node& node = graph->node(id);
    if (live[id] && node.op->name == name) {
      std::string text;
      for (const Value& value : node.inputs) {
        text += fmt::format("{} ", name_of(graph->type(value).dtype));
      }
      found.push_back(text + "-> " + std::string(name_of(node.outputs[0].dtype)));
    }
  }
  return found;
}

using testing::ElementsAre;

TEST(Precision, ProductsRunIn16BitsAndSumsInF32) {
  const Tensors in{bf16({4, 3}, 1), cast(random_tensor({2, 4}, 2), Dtype::kF32)};
  const auto f = [](const Tensors& x) {
    const Tensor y = matmul(x[1], x[0]) * 0.5;
    return sum(softmax(y) * exp(y));
  };
  EXPECT_THAT(types_of_op(f, in, "dot_general"), ElementsAre("bf16 bf16 -> bf16"));
  EXPECT_THAT(types_of_op(f, in, "softmax"), ElementsAre("f32 -> f32"));
  EXPECT_THAT(types_of_op(f, in, "exp"), ElementsAre("f32 -> f32"));
  EXPECT_THAT(types_of_op(f, in, "reduce_sum"), ElementsAre("f32 -> f32"));
  EXPECT_THAT(types_of_op(f, in, "mul"), ElementsAre("bf16 bf16 -> bf16", "f32 f32 -> f32"));
}

TEST(Precision, OthersMeetInTheWiderType) {
  const Tensors in{bf16({4, 3}, 1), bf16({3}, 3), cast(random_tensor({4, 3}, 2), Dtype::kF32)};
  const auto f = [](const Tensors& x) {
    const Tensor y = layer_norm(x[0] + x[0], x[1], x[1]);
    return sum(square(relu(y) - x[2]));
  };
  EXPECT_THAT(types_of_op(f, in, "add"), ElementsAre("bf16 bf16 -> bf16"));
  EXPECT_THAT(types_of_op(f, in, "layer_norm"), ElementsAre("bf16 bf16 bf16 -> bf16"));
  EXPECT_THAT(types_of_op(f, in, "sub"), ElementsAre("f32 f32 -> f32"));
}

TEST(Precision, AnEmbeddingAndItsLossNeedNoConversion) {
  const Tensors in{bf16({7, 5}, 1), vector({1, 4, 2}, Dtype::kI32)};
  const auto f = [](const Tensors& x) {
    return cross_entropy(matmul(gather(x[0], x[1]), x[0], {.transpose_b = true}), x[1]);
  };
  EXPECT_THAT(types_of_op(f, in, "gather"), ElementsAre("bf16 i32 -> bf16"));
  EXPECT_THAT(types_of_op(f, in, "cross_entropy"), ElementsAre("bf16 i32 -> f32"));
}

TEST(Precision, ConstantsAreNotRounded) {
  const Tensors in{full({4}, 3, Dtype::kBF16)};
  const auto f = [](const Tensors& x) { return x[0] / 3.0 * 0.1; };
  EXPECT_THAT(types_of_op(f, in, "mul"), ElementsAre("f32 f32 -> f32"));
  EXPECT_THAT(types_of_op(f, in, "div"), ElementsAre("bf16 bf16 -> bf16"));
  const double expected = static_cast<double>(static_cast<float>(BFloat16(0.1F)));
  EXPECT_EQ(to_doubles(in_precision(Dtype::kBF16, f)(in))[0], expected);
  // bf16 has 1.703125 in the place of 1.7, with which 250 would become 426.
  EXPECT_EQ(item(in_precision(Dtype::kBF16, [](const Tensor& x) { return sum(x * 1.7); })(
                full({1}, 250, Dtype::kBF16))),
            424);
}

TEST(Precision, ResultsHaveTheTypesOfTheFunctionAndGradientsThoseOfTheParameters) {
  const auto f = in_precision(Dtype::kBF16, [](const Tensor& w, const Tensor& x) {
    return std::pair(sum(square(matmul(x, w))), matmul(x, w));
  });
  const Tensor x = cast(random_tensor({2, 4}, 2), Dtype::kF32);
  const auto [loss, product] = f(bf16({4, 3}, 1), x);
  EXPECT_EQ(loss.dtype(), Dtype::kF32);
  EXPECT_EQ(product.dtype(), Dtype::kF32);
  const Tensor gradient = grad([&](const Tensor& w) { return f(w, x).first; })(bf16({4, 3}, 1));
  EXPECT_EQ(gradient.type(), (TensorType{Dtype::kBF16, {4, 3}}));
}

TEST(Precision, F32IsTheFunctionItself) {
  const auto f = [](const Tensor& x) { return sum(exp(x)); };
  const Tensor x = cast(random_tensor({5}, 1), Dtype::kF32);
  EXPECT_EQ(item(in_precision(Dtype::kF32, f)(x)), item(f(x)));
}

// The same numbers in both modes, with and without recomputation, near those of f32.
TEST(Precision, AgreesInBothModesAndUnderRecomputation) {
  const Tensor w = bf16({6, 6}, 1);
  const Tensor x = cast(random_tensor({5, 6}, 2), Dtype::kF32);
  const auto layer = [](const Tensor& p, const Tensor& y) { return relu(matmul(y, p)) + y * 0.5; };
  const auto run = [&](Dtype dtype, bool recomputes) {
    const auto f = in_precision(dtype, [=](const Tensor& p) {
      const auto one = [&](const Tensor& y) { return layer(p, y); };
      return sum(square(recomputes ? recompute(one)(one(x)) : one(one(x)))) / 30.0;
    });
    return [f](const Tensor& p) {
      const auto [value, gradient] = value_and_grad(f)(p);
      return Tensors{value, gradient};
    };
  };
  const Tensors plain = run(Dtype::kBF16, false)(w);
  const Tensors again = run(Dtype::kBF16, true)(w);
  const Tensors exact = jit(run(Dtype::kBF16, true), {.level = 0})(w);
  const Tensors fused = jit(run(Dtype::kBF16, false))(w);
  const Tensors wide = run(Dtype::kF32, false)(cast(w, Dtype::kF32));
  for (size_t i = 0; i < plain.size(); ++i) {
    expect_equal(again[i], plain[i]);
    expect_equal(exact[i], plain[i]);
    expect_near(fused[i], plain[i], 0.02);
    expect_near(cast(plain[i], Dtype::kF64), cast(wide[i], Dtype::kF64), 0.03);
  }
}

TEST(Precision, OtherTypesAreRefused) {
  const auto f = in_precision(Dtype::kF64, [](const Tensor& x) { return sum(x); });
  EXPECT_THAT(error_of([&] { f(f64({1, 2})); }), HasSubstr("neither bf16 nor f16"));
}

}  // namespace
}  // namespace mstrain
