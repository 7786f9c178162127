// Known decompositions, what every decomposition promises, and what happens to matrices that have none.
#include "core/ops/linalg.h"
#include "core/ir/backend.h"

#include "core/ops/index.h"
#include "core/ops/matmul.h"
#include "core/ops/matrix.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "core/transform/scan.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

constexpr double kNear = 1e-12;

void expect_near(const Tensor& actual, const Tensor& expected, double within = kNear) {
  EXPECT_LE(greatest_difference(actual, expected), within)
      << to_text(actual) << "\n instead of " << to_text(expected);
}

Tensor random_positive(const Shape& shape, uint64_t seed) {
  const Tensor x = random_tensor(shape, seed);
  return matmul(x, x, {.transpose_b = true}) + eye(shape.back(), -1, Dtype::kF64);
}

TEST(Linalg, CholeskyOfAKnownMatrix) {
  const Tensor a = f64({4, 12, -16, 12, 37, -43, -16, -43, 98}, {3, 3});
  expect_near(cholesky(a), f64({2, 0, 0, 6, 1, 0, -8, 5, 3}, {3, 3}));
}

TEST(Linalg, SystemsAreSolvedForMatricesVectorsAndBatchesThatBroadcast) {
  const Tensor a = f64({2, 1, 1, 3}, {2, 2});
  expect_near(solve(a, f64({3, 5}, {2})), f64({0.8, 1.4}, {2}));
  const Tensor b = random_tensor({5, 2, 3}, 1);
  expect_near(matmul(a, solve(a, b)), b);
  const Tensor many = random_positive({4, 1, 3, 3}, 2);
  const Tensor right = random_tensor({6, 3, 2}, 3);
  EXPECT_EQ(solve(many, right).shape(), (Shape{4, 6, 3, 2}));
  expect_near(matmul(many, solve(many, right)), broadcast_to(right, {4, 6, 3, 2}));
}

TEST(Linalg, ATriangleIsSolvedWithoutReadingTheOtherOne) {
  const Tensor a = f64({2, 99, 1, 4}, {2, 2});
  expect_near(triangular_solve(a, f64({2, 9}, {2})), f64({1, 2}, {2}));
  expect_near(triangular_solve(a, f64({4, 8}, {2}), {.transpose = true}), f64({1, 2}, {2}));
}

TEST(Linalg, DeterminantsAndInversesOfKnownMatrices) {
  const Tensor a = f64({0, 2, 3, 4}, {2, 2});
  expect_near(det(a), f64({-6}, {}));
  expect_near(inverse(a), f64({-4.0 / 6, 2.0 / 6, 3.0 / 6, 0}, {2, 2}));
  const auto [sign, logarithm] = slogdet(f64({1, 2, 2, 4}, {2, 2}));
  EXPECT_EQ(item(sign), 0);
  EXPECT_EQ(item(logarithm), -std::numeric_limits<double>::infinity());
  expect_near(det(zeros({Dtype::kF64, {0, 0}})), f64({1}, {}));
}

TEST(Linalg, DecompositionsOfEveryFormMultiplyBackToTheMatrix) {
  for (const Shape& shape :
       {Shape{5, 3}, Shape{3, 5}, Shape{4, 4}, Shape{2, 3, 40, 30}, Shape{1, 1}}) {
    const Tensor a = random_tensor(shape, 7);
    const int64_t k = std::min(a.dim(-2), a.dim(-1));
    const Tensor one = eye(k, -1, Dtype::kF64);
    const auto [q, r] = qr(a);
    expect_near(matmul(q, r), a);
    expect_near(matmul(q, q, {.transpose_a = true}),
                broadcast_to(one, matmul(q, q, {.transpose_a = true}).shape()));
    EXPECT_TRUE(static_cast<bool>(all(diagonal(r) >= 0)));
    expect_near(tril(r, -1), zeros_like(r));
    const auto [u, s, vt] = svd(a);
    expect_near(matmul(u * expand_dims(s, -2), vt), a);
    expect_near(matmul(vt, vt, {.transpose_b = true}),
                broadcast_to(one, matmul(vt, vt, {.transpose_b = true}).shape()));
    expect_near(sort(s, -1, true), s);
  }
  const Tensor symmetric = random_positive({3, 33, 33}, 9);
  const auto [values, vectors] = eigh(symmetric);
  expect_near(matmul(symmetric, vectors), vectors * expand_dims(values, -2), 1e-10);
  expect_near(sort(values), values);
}

TEST(Linalg, GradientsAreThoseOfTheKnownFormulas) {
  const Tensor a = random_positive({4, 4}, 11);
  const auto log_determinant = [](const Tensor& x) { return slogdet(x).logarithm; };
  expect_near(grad(log_determinant)(a), transpose(inverse(a)), 1e-11);
  // The same number by way of Cholesky's decomposition and of the eigenvalues.
  const auto by_cholesky = [](const Tensor& x) { return 2 * sum(log(diagonal(cholesky(x)))); };
  const auto by_values = [](const Tensor& x) { return sum(log(eigh(x).values)); };
  expect_near(grad(by_cholesky)(a), inverse(a), 1e-11);
  expect_near(grad(by_values)(a), inverse(a), 1e-11);
  // Σ s² is the sum of the squares of all elements.
  const Tensor high = random_tensor({5, 3}, 12);
  const auto squares = [](const Tensor& x) { return sum(square(svd(x).s)); };
  expect_near(grad(squares)(high), 2 * high, 1e-11);
  expect_near(jit(grad(squares))(high), 2 * high, 1e-11);
}

TEST(Linalg, ErrorsOfValuesNameTheLineOfTheCall) {
  const Tensor negative = -eye(2);
  const auto names_this_file = testing::ContainsRegex(", at tests/core/ops/linalg_test.cc:[0-9]+$");
  EXPECT_THAT(error_of([&] { to_doubles(cholesky(negative)); }), names_this_file);
  EXPECT_THAT(error_of([&] {
                to_doubles(inverse(zeros({Dtype::kF32, {2, 2}})));
              }),
              names_this_file);
  EXPECT_THAT(
      error_of([&] { to_doubles(jit([](const Tensor& x) { return cholesky(x) + 1; })(negative)); }),
      names_this_file);
  EXPECT_THAT(error_of([&] {
                to_doubles(grad([](const Tensor& x) { return sum(cholesky(x)); })(negative));
              }),
              names_this_file);
  const int line = __LINE__ + 2;  // of the body, not of the loop
  const auto body = [](const Tensor& carry, const Tensor& x) {
    return std::pair(carry, cholesky(x));
  };
  const std::string of_body = fmt::format(", at tests/core/ops/linalg_test.cc:{}", line);
  EXPECT_THAT(error_of([&] {
                to_doubles(scan(body, f64({0}, {1}), reshape(negative, {1, 2, 2})).second);
              }),
              testing::EndsWith(of_body));
  EXPECT_THAT(error_of([&] {
                to_doubles(jit([&](const Tensor& x) {
                  return scan(body, f64({0}, {1}), x).second;
                })(reshape(negative, {1, 2, 2})));
              }),
              testing::EndsWith(of_body));
}

TEST(Linalg, DerivativesOfDeterminantsOfSingularMatricesAreErrorsOfTheseFunctions) {
  const Tensor singular = f64({1, 2, 2, 4}, {2, 2});
  const auto determinant = [](const Tensor& x) { return det(x); };
  const auto logarithm = [](const Tensor& x) { return slogdet(x).logarithm; };
  const auto says = [](std::string_view function) {
    return testing::ContainsRegex(
        fmt::format("^{}: matrix 0 of the batch is singular, where its derivative is not defined "
                    "here, at tests/core/ops/linalg_test.cc:",
                    function));
  };
  for (const Backend* backend : {backend_named("cpu"), backend_named("reference")}) {
    const Context context{.backend = backend};
    const ContextScope scope(context);
    EXPECT_THAT(error_of([&] { to_doubles(grad(determinant)(singular)); }), says("det"));
    EXPECT_THAT(error_of([&] { to_doubles(jit(grad(determinant))(singular)); }), says("det"));
    EXPECT_THAT(error_of([&] { to_doubles(jvp(determinant, singular, singular).second); }),
                says("det"));
    EXPECT_THAT(error_of([&] { to_doubles(grad(logarithm)(singular)); }), says("slogdet"));
    EXPECT_THAT(error_of([&] { to_doubles(inverse(singular)); }),
                testing::StartsWith("solve: matrix 0 of the batch is singular, at"));
  }
}

TEST(Linalg, MatricesWithNanGiveNan) {
  const Tensor a = f64({1, std::nan(""), 2, 4}, {2, 2});
  const auto has_nan = [](const Tensor& x) { return static_cast<bool>(any(isnan(x))); };
  EXPECT_TRUE(has_nan(svd(a).s));
  EXPECT_TRUE(has_nan(eigh(a).values));
  EXPECT_TRUE(has_nan(qr(a).r));
  EXPECT_TRUE(has_nan(inverse(a)));
}

TEST(Linalg, WhatCannotBeDecomposedIsAnErrorThatNamesTheMatrix) {
  const Tensor batch = stack(std::array{eye(2), -eye(2)}, 0);
  for (const Backend* backend : {backend_named("cpu"), backend_named("reference")}) {
    const Context context{.backend = backend};
    const ContextScope scope(context);
    EXPECT_THAT(error_of([&] { cholesky(batch); }),
                testing::HasSubstr("cholesky: matrix 1 of the batch is not positive definite"));
    EXPECT_THAT(error_of([&] { cholesky(eye(2) * std::nan("")); }),
                testing::HasSubstr("is not positive definite"));
    EXPECT_THAT(error_of([&] { solve(batch - eye(2), batch); }),
                testing::HasSubstr("solve: matrix 0 of the batch is singular"));
    EXPECT_THAT(error_of([&] { jit([](const Tensor& x) { return cholesky(x); })(batch); }),
                testing::HasSubstr("is not positive definite"));
  }
  EXPECT_THAT(error_of([&] {
                cholesky(zeros({Dtype::kF32, {2, 3}}));
              }),
              testing::AllOf(testing::HasSubstr("cholesky: [2, 3] is not square"),
                             testing::HasSubstr("linalg_test.cc")));
  EXPECT_THAT(error_of([&] {
                eigh(zeros({Dtype::kI32, {2, 2}}));
              }),
              testing::HasSubstr("is not defined for i32"));
}

TEST(Linalg, NumbersThatAreNotFiniteGiveNanAndComeToAnEnd) {
  const Tensor a = f64({1, std::numeric_limits<double>::quiet_NaN(), 2, 3}, {2, 2});
  EXPECT_TRUE(static_cast<bool>(all(isnan(svd(a).s))));
  EXPECT_TRUE(static_cast<bool>(all(isnan(eigh(a).values))));
}

}  // namespace
}  // namespace mstrain
