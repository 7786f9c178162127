#include "core/transform/accumulate.h"

#include "core/exec/execute.h"
#include "core/ops/collective.h"
#include "tests/ranks.h"

#include "tests/core/compile/covered.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

struct Batch {
  Tensor x, y;
  template <class V>
  void fields(V& v) {
    v("x", x);
    v("y", y);
  }
};

Tensor squared_loss(const Tensor& w, const Batch& b) {
  return sum(square(tanh(matmul(b.x, w)) - b.y));
}

Batch batch(int64_t rows) { return {random_tensor({rows, 3}, 1), random_tensor({rows, 2}, 2)}; }

auto gradients(int64_t n) {
  return [n](const Tensor& w, const Batch& b) {
    return accumulate(
        n, [&](const Batch& micro) { return value_and_grad(squared_loss)(w, micro); })(b);
  };
}

TEST(Accumulate, MicroBatchesAddUpToTheBatch) {
  const Tensor w = random_tensor({3, 2}, 3);
  const Batch all = batch(12);
  const auto [value, gradient] = value_and_grad(squared_loss)(w, all);
  for (int64_t n : {1, 2, 3, 4, 6, 12}) {
    const auto [sum_value, sum_gradient] = in_both_modes(gradients(n), w, all);
    expect_near(sum_value, value, 1e-13);
    expect_near(sum_gradient, gradient, 1e-13);
  }
}

// Two layers whose terms ranks add up.
Tensor shared_loss(const MeshAxis& axis, const Tensor& w, const Tensor& x) {
  const Tensor h = all_reduce(matmul(tanh(x), w), axis);
  return sum(square(all_reduce(matmul(tanh(h), w), axis)));
}

TEST(Accumulate, SideBySideMakesTheSameSums) {
  const MeshAxis axis{"tensor", 2};
  run_ranks(Mesh{{axis}}, [&](const std::shared_ptr<Ranks>& ranks) {
    const Tensor w = random_tensor({3, 3}, 3 + static_cast<uint64_t>(ranks->rank()));
    const Tensor x = random_tensor({12, 3}, 1);
    const auto sums = [&](int64_t side_by_side) {
      return jit([=](const Tensor& weight, const Tensor& batch) {
        return accumulate(
            6,
            [&](const Tensor& micro) {
              return value_and_grad([&](const Tensor& v) { return shared_loss(axis, v, micro); })(
                  weight);
            },
            false, side_by_side)(batch);
      })(w, x);
    };
    const auto [value, gradient] = sums(1);
    for (const int64_t side_by_side : {2, 3, 6}) {
      const auto [other_value, other_gradient] = sums(side_by_side);
      EXPECT_EQ(item(other_value), item(value));
      EXPECT_EQ(to_doubles(other_gradient), to_doubles(gradient));
    }
  });
}

TEST(Accumulate, SideBySideCollectivesOfOneRunUnderTheProductsOfAnother) {
  const MeshAxis axis{"tensor", 2};
  // Collectives with a product between where they begin and where they are waited for.
  const auto covered = [&](int64_t side_by_side) {
    Tensors none;
    const Types types{{Dtype::kF32, {64, 64}}, {Dtype::kF32, {256, 64}}};
    const GraphPtr graph = trace_program(
        types,
        [&](std::span<const Tensor> in) {
          return Tensors{accumulate(
              4, [&](const Tensor& micro) { return shared_loss(axis, in[0], micro); }, false,
              side_by_side)(in[1])};
        },
        &none);
    const std::unique_ptr<Program> program = compile(*graph, {});
    const Plan* plan = &plan_of(*program);
    for (const PlanStep& step : plan->steps) {
      plan = step.loop != nullptr ? step.loop->body.get() : plan;
    }
    return covered_collectives(*plan);
  };
  EXPECT_EQ(covered(1), 0);
  // Two collectives of each: all but the last one has the other's work to run under.
  EXPECT_GE(covered(2), 3);
}

// ((v_0 + v_1) + v_2) + …, whatever the values: large and small ones show the order.
TEST(Accumulate, TheOrderOfTheSumIsThatOfTheIndex) {
  Rng rng(4);
  std::vector<float> values(16);
  float expected = 0;
  for (float& value : values) {
    value =
        static_cast<float>(std::ldexp(rng.uniform(-1, 1), static_cast<int>(rng.below(40)) - 20));
    expected += value;
  }
  const Tensor x = tensor<float>(values, {16});
  const auto f = [](const Tensor& t) {
    return accumulate(16, [](const Tensor& micro) { return reshape(micro, {}); })(t);
  };
  EXPECT_EQ(item(f(x)), expected);
  EXPECT_EQ(item(jit(f)(x)), expected);
}

TEST(Accumulate, ShortFloatsAreSummedInFull) {
  // 256 ones and more: bf16 has 8 bits, so that a sum in bf16 would stop at 256.
  const Tensor x = full({512}, 1, Dtype::kBF16);
  const auto f = [](const Tensor& t) {
    return accumulate(512, [](const Tensor& micro) { return sum(micro); })(t);
  };
  const Tensor total = f(x);
  EXPECT_EQ(total.dtype(), Dtype::kBF16);
  EXPECT_EQ(item(total), 512);
}

TEST(Accumulate, CountsAndFurtherArguments) {
  const auto f = [](const Batch& micro, const Tensor& threshold) {
    return std::pair(sum(cast(micro.x > threshold, Dtype::kI32)), sum(micro.y, {0}));
  };
  const Batch all = batch(8);
  const auto g = [&](const Batch& b, const Tensor& threshold) {
    return accumulate(4, f)(b, threshold);
  };
  const auto [count, sums] = in_both_modes(g, all, f64(0));
  EXPECT_EQ(item(count), item(sum(cast(all.x > 0, Dtype::kI32))));
  expect_near(sums, sum(all.y, {0}), 1e-14);
}

TEST(Accumulate, HasDerivatives) {
  const Tensor w = random_tensor({3, 2}, 5);
  const Batch all = batch(6);
  const auto total = [&](const Tensor& v) {
    return accumulate(3, [&](const Batch& micro) { return squared_loss(v, micro); })(all);
  };
  expect_near(in_both_modes(grad(total), w), grad(squared_loss)(w, all), 1e-13);
}

TEST(Accumulate, SaysWhatDoesNotFit) {
  const auto f = [](const Batch& b) { return sum(b.x); };
  EXPECT_THAT(
      error_of([&] { accumulate(5, f)(batch(12)); }),
      HasSubstr("x of the batch is f64[12, 3], which does not divide into 5 micro-batches"));
  EXPECT_THAT(error_of([&] { accumulate(0, f)(batch(12)); }),
              HasSubstr("accumulate: 0 micro-batches"));
  EXPECT_THAT(error_of([&] { accumulate(2, [](const Batch& b) { return b.x > 0; })(batch(12)); }),
              HasSubstr("has no sum"));
}

}  // namespace
}  // namespace mstrain
