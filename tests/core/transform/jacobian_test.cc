#include "core/transform/jacobian.h"

#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

Tensor f(const Tensor& x) { return matmul(sin(x), transpose(x)) * exp(sum(x, {1})); }

// ∂f[i…]/∂x[j…] by central differences, one column for each element of x.
Tensor by_differences(const TensorFunction& function, const Tensor& x) {
  const double h = 1e-6;
  std::vector<double> values = to_doubles(x);
  Tensors columns;
  for (double& value : values) {
    const double before = value;
    value = before + h;
    const Tensor up = function(tensor<double>(values, x.shape()));
    value = before - h;
    const Tensor down = function(tensor<double>(values, x.shape()));
    value = before;
    columns.push_back((up - down) / (2 * h));
  }
  const Tensor last = stack(columns, -1);
  Shape shape = columns[0].shape();
  for (int64_t dim : x.shape()) {
    shape.push_back(dim);
  }
  return reshape(last, shape);
}

TEST(Jacobian, BothModesAgreeWithDifferences) {
  const Tensor x = random_tensor({2, 3}, 1);
  const Tensor reverse = in_both_modes(jacobian(f), x);
  const Tensor forward = in_both_modes(jacobian_forward(f), x);
  ASSERT_EQ(reverse.shape(), Shape({2, 2, 2, 3}));
  expect_near(reverse, forward, 1e-13);
  expect_near(reverse, by_differences(f, x), 1e-8);
}

TEST(Jacobian, OfALinearFunctionIsItsMatrix) {
  const Tensor a = random_tensor({4, 3}, 2);
  const auto g = [&](const Tensor& x) { return matmul(a, x); };
  expect_near(in_both_modes(jacobian(g), random_tensor({3}, 3)), a);
  expect_near(in_both_modes(jacobian_forward(g), random_tensor({3}, 3)), a);
}

TEST(Jacobian, OfScalarsAndOfNothing) {
  EXPECT_DOUBLE_EQ(item(jacobian([](const Tensor& x) { return x * x; })(f64(3))), 6);
  expect_equal(jacobian([](const Tensor& x) { return stop_gradient(x); })(f64({1, 2})),
               zeros({Dtype::kF64, {2, 2}}));
  expect_equal(jacobian_forward([](const Tensor& x) { return stop_gradient(x); })(f64({1, 2})),
               zeros({Dtype::kF64, {2, 2}}));
  EXPECT_EQ(jacobian([](const Tensor& x) { return slice(x, 0, 0, 0); })(f64({1, 2})).shape(),
            Shape({0, 2}));
}

TEST(Jacobian, FurtherArgumentsAreConstants) {
  const auto g = [](const Tensor& x, const Tensor& scale) { return x * x * scale; };
  const Tensor diagonal = jacobian(g)(f64({1, 2}), f64({5, 7}));
  EXPECT_THAT(to_doubles(diagonal), testing::ElementsAre(10, 0, 0, 28));
}

TEST(Jacobian, OfJacobiansAndInsideGradients) {
  const auto g = [](const Tensor& x) { return x * x * x; };
  const Tensor x = random_tensor({2}, 4);
  const std::vector<double> v = to_doubles(x);
  const Tensor second = in_both_modes(jacobian(jacobian(g)), x);
  EXPECT_THAT(to_doubles(second),
              testing::Pointwise(testing::DoubleNear(1e-13),
                                 {6 * v[0], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 6 * v[1]}));
  expect_near(in_both_modes(jacobian_forward(jacobian(g)), x), second);
  expect_near(in_both_modes(jacobian(jacobian_forward(g)), x), second);
  const auto trace = [&](const Tensor& t) { return sum(jacobian(g)(t)); };
  expect_near(in_both_modes(grad(trace), x), 6 * x);
}

TEST(Hessian, IsTheMatrixOfSecondDerivatives) {
  const auto g = [](const Tensor& x) { return sum(exp(x)) * sum(x * x); };
  const Tensor x = random_tensor({3}, 5);
  const Tensor second = in_both_modes(hessian(g), x);
  expect_near(second, by_differences(grad(g), x), 1e-8);
  expect_near(second, in_both_modes(jacobian(grad(g)), x), 1e-12);
}

TEST(Jacobian, NeedsFloatingPointNumbers) {
  EXPECT_THAT(error_of([] {
                jacobian([](const Tensor& x) { return x; })(vector({1, 2}, Dtype::kI32));
              }),
              HasSubstr("the argument is i32[2]"));
  EXPECT_THAT(error_of([] {
                jacobian([](const Tensor& x) { return x > 0; })(f64({1, 2}));
              }),
              HasSubstr("the result is bool[2]"));
}

}  // namespace
}  // namespace mstrain
