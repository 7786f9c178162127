#include "core/transform/vmap.h"

#include "core/ops/random.h"
#include "core/transform/jacobian.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

Tensor row_loss(const Tensor& w, const Tensor& x, const Tensor& y) {
  return sum(square(tanh(matmul(x, w)) - y));
}

TEST(Vmap, IsALoopOverSamples) {
  const Tensor x = random_tensor({5, 3, 4}, 1);
  const Tensor y = random_tensor({5, 4, 2}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return matmul(exp(a), b) - sum(a); };
  const Tensor all = in_both_modes(vmap(f), x, y);
  for (int64_t i = 0; i < 5; ++i) {
    expect_near(select(all, 0, i), f(select(x, 0, i), select(y, 0, i)), 1e-14);
  }
}

TEST(Vmap, ArgumentsThatAreNotMappedAreShared) {
  const Tensor x = random_tensor({5, 3}, 1);
  const Tensor w = random_tensor({3, 2}, 2);
  const auto f = [](const Tensor& a, const Tensor& b) { return std::pair(matmul(a, b), b * 2); };
  const auto [products, doubled] = in_both_modes(vmap(f, {true, false}), x, w);
  expect_near(products, matmul(x, w));
  expect_equal(doubled, broadcast_to(w * 2, {5, 3, 2}));
}

TEST(Vmap, CapturedTensorsAreShared) {
  const Tensor w = random_tensor({3}, 3);
  const Tensor x = random_tensor({4, 3}, 4);
  expect_near(in_both_modes(vmap([&](const Tensor& a) { return sum(a * w); }), x), sum(x * w, {1}));
}

TEST(Vmap, Nests) {
  const Tensor x = random_tensor({3}, 5);
  const Tensor y = random_tensor({4}, 6);
  const auto outer_product = [&](const Tensor& a, const Tensor& b) {
    return vmap([&](const Tensor& s) {
      return vmap([&](const Tensor& t) { return s * t + exp(t); })(b);
    })(a);
  };
  expect_near(in_both_modes(outer_product, x, y), expand_dims(x, 1) * y + exp(y));
  // A mapped value of the outer one, captured by the inner one, is not mapped there.
  const auto pairs = vmap([&](const Tensor& s, const Tensor& row) {
    return vmap([&](const Tensor& t) { return s * t; })(row);
  });
  expect_near(in_both_modes(pairs, x, random_tensor({3, 4}, 7)),
              expand_dims(x, 1) * random_tensor({3, 4}, 7));
}

TEST(Vmap, PerSampleGradients) {
  const Tensor w = random_tensor({4, 2}, 8);
  const Tensor x = random_tensor({6, 3, 4}, 9);
  const Tensor y = random_tensor({6, 3, 2}, 10);
  const Tensor each = in_both_modes(vmap(grad(row_loss), {false, true, true}), w, x, y);
  ASSERT_EQ(each.shape(), Shape({6, 4, 2}));
  for (int64_t i = 0; i < 6; ++i) {
    expect_near(select(each, 0, i), grad(row_loss)(w, select(x, 0, i), select(y, 0, i)), 1e-13);
  }
  // Their sum is the gradient of the sum.
  const auto total = [&](const Tensor& v) {
    return sum(vmap(row_loss, {false, true, true})(v, x, y));
  };
  expect_near(in_both_modes(grad(total), w), sum(each, {0}), 1e-12);
}

TEST(Vmap, PerSampleHessians) {
  const auto f = [](const Tensor& x) { return sum(exp(x) * sum(x * x)); };
  const Tensor x = random_tensor({3, 4}, 11);
  const Tensor each = in_both_modes(vmap(hessian(f)), x);
  for (int64_t i = 0; i < 3; ++i) {
    expect_near(select(each, 0, i), hessian(f)(select(x, 0, i)), 1e-12);
  }
}

TEST(Vmap, TreesAreMappedLeafByLeaf) {
  const std::vector<Tensor> trees{random_tensor({4, 2}, 12), random_tensor({4}, 13)};
  const auto f = [](const std::vector<Tensor>& t) {
    return std::vector<Tensor>{t[0] * t[1], t[1]};
  };
  const auto result =
      in_both_modes([&](const std::vector<Tensor>& t) { return vmap(f)(t); }, trees);
  expect_near(result[0], trees[0] * expand_dims(trees[1], 1));
  expect_equal(result[1], trees[1]);
}

TEST(Vmap, ForwardModeInsideAndOutside) {
  const auto f = [](const Tensor& x) { return sum(sin(x) * x); };
  const Tensor x = random_tensor({5, 3}, 14);
  const Tensor v = random_tensor({5, 3}, 15);
  const auto inside = vmap([&](const Tensor& a, const Tensor& b) { return jvp(f, a, b).second; });
  const auto outside = [&](const Tensor& a, const Tensor& b) { return jvp(vmap(f), a, b).second; };
  expect_near(in_both_modes(inside, x, v), in_both_modes(outside, x, v), 1e-13);
}

TEST(Vmap, SharedKeysDrawEqualNumbersAndMappedKeysDoNot) {
  const auto draw = [](const Tensor& key, const Tensor& x) {
    return x + uniform(key, {3}, {.dtype = Dtype::kF64});
  };
  const Tensor x = zeros({Dtype::kF64, {2, 3}});
  const Tensor shared = vmap(draw, {false, true})(rng_key(1), x);
  expect_equal(select(shared, 0, 0), select(shared, 0, 1));
  const Tensor keys = stack(std::array{rng_key(1), rng_key(2)}, 0);
  const Tensor own = vmap(draw)(keys, x);
  expect_equal(select(own, 0, 0), draw(rng_key(1), zeros({Dtype::kF64, {3}})));
  expect_equal(select(own, 0, 1), draw(rng_key(2), zeros({Dtype::kF64, {3}})));
}

TEST(Vmap, OfNoSamplesIsEmpty) {
  const Tensor result = vmap([](const Tensor& x) { return matmul(x, transpose(x)); })(
      zeros({Dtype::kF64, {0, 2, 3}}));
  EXPECT_EQ(result.shape(), Shape({0, 2, 2}));
}

TEST(Vmap, SaysWhatDoesNotFit) {
  const auto f = [](const Tensor& a, const Tensor& b) { return a + b; };
  const Tensor x = random_tensor({3, 2}, 1);
  EXPECT_THAT(error_of([&] { vmap(f)(x, f64(1)); }),
              HasSubstr("vmap: argument 1 is f64[], without a leading dim"));
  EXPECT_THAT(error_of([&] {
                vmap(f)(x, random_tensor({4, 2}, 1));
              }),
              HasSubstr("vmap: argument 1 is f64[4, 2], the arguments before it hold 3 samples"));
  EXPECT_THAT(error_of([&] { vmap(f, {true})(x, x); }),
              HasSubstr("`mapped` has 1 entries for 2 arguments"));
  EXPECT_THAT(error_of([&] {
                vmap(f, {false, false})(x, x);
              }),
              HasSubstr("no argument holds samples"));
  EXPECT_THAT(error_of([&] { vmap([](const Tensor& a) { return a * item(sum(a)); })(x); }),
              HasSubstr("vmap_test.cc"));
}

}  // namespace
}  // namespace mstrain
