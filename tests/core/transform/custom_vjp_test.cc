#include "core/transform/custom_vjp.h"

#include "core/transform/jacobian.h"
#include "core/transform/recompute.h"
#include "core/transform/vmap.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// exp with the derivative of its own value, as a check, or with any other.
auto exp_like(double factor) {
  return custom_vjp(
      [](const Tensor& x) {
        const Tensor y = exp(x);
        return std::pair(y, y);
      },
      [factor](const Tensor& y, const Tensor& g) { return g * y * factor; });
}

TEST(CustomVjp, UsesTheGivenRule) {
  const Tensor x = random_tensor({3}, 1);
  expect_equal(in_both_modes(exp_like(1), x), exp(x));
  const auto f = [](const Tensor& t) { return sum(exp_like(7)(t) * t); };
  expect_near(in_both_modes(grad(f), x), 7 * exp(x) * x + exp(x));
}

TEST(CustomVjp, SecondDerivativesGoThroughTheResiduals) {
  const Tensor x = random_tensor({3}, 2);
  const auto second = [](const auto& f) {
    return grad(
        [f](const Tensor& t) { return sum(grad([f](const Tensor& y) { return sum(f(y)); })(t)); });
  };
  const auto plain = [](const Tensor& t) { return exp(t); };
  expect_near(in_both_modes(second(exp_like(1)), x), in_both_modes(second(plain), x));
  // The rule of the residual is that of what computes it: d/dx (2 exp x) = 2 exp x.
  expect_near(in_both_modes(second(exp_like(2)), x), 2 * exp(x));
  const auto total = [](const Tensor& t) { return sum(exp_like(1)(t)); };
  EXPECT_NEAR(item(in_both_modes(jacobian(grad(total)), f64({0.5}))), std::exp(0.5), 1e-14);
}

TEST(CustomVjp, TakesSeveralTreesAndZeroCotangents) {
  const auto f = custom_vjp(
      [](const std::pair<Tensor, Tensor>& p, const Tensor& scale, const Tensor& ids) {
        return std::pair(std::pair(p.first * p.second, scale * 1), std::tuple(p, ids));
      },
      [](const std::tuple<std::pair<Tensor, Tensor>, Tensor>& kept,
         const std::pair<Tensor, Tensor>& g) {
        const auto& p = std::get<0>(kept);
        return std::tuple(std::pair(g.first * p.second * 10, Tensor()), g.second * 3, Tensor());
      });
  const auto total = [&](const std::pair<std::pair<Tensor, Tensor>, Tensor>& all) {
    const auto [product, scaled] = f(all.first, all.second, vector({1, 2}, Dtype::kI32));
    return sum(product) + sum(scaled);
  };
  const auto gradient = in_both_modes(
      [&](const std::pair<std::pair<Tensor, Tensor>, Tensor>& all) { return grad(total)(all); },
      std::pair(std::pair(f64({1, 2}), f64({3, 4})), f64({5})));
  EXPECT_THAT(to_doubles(gradient.first.first), testing::ElementsAre(30, 40));
  EXPECT_THAT(to_doubles(gradient.first.second), testing::ElementsAre(0, 0));
  EXPECT_THAT(to_doubles(gradient.second), testing::ElementsAre(3));
}

TEST(CustomVjp, ClipsAGradientOnItsWay) {
  const auto clip =
      custom_vjp([](const Tensor& x) { return std::pair(x * 1, std::tuple<>{}); },
                 [](const std::tuple<>&, const Tensor& g) { return minimum(maximum(g, -1), 1); });
  const auto f = [&](const Tensor& x) { return sum(clip(x) * f64({5, 0.5, -7})); };
  EXPECT_THAT(to_doubles(in_both_modes(grad(f), f64({1, 2, 3}))), testing::ElementsAre(1, 0.5, -1));
}

TEST(CustomVjp, WorksInsideOtherTransforms) {
  const Tensor x = random_tensor({4, 3}, 3);
  const auto each = vmap(grad([](const Tensor& t) { return sum(exp_like(3)(t)); }));
  expect_near(in_both_modes(each, x), 3 * exp(x));
  const auto recomputed = [](const Tensor& t) { return sum(recompute(exp_like(3))(t)); };
  expect_near(in_both_modes(grad(recomputed), x), 3 * exp(x));
}

TEST(CustomVjp, ConstantsFromOutsideAreAllowed) {
  const Tensor w = random_tensor({3}, 4);
  const Tensor v = random_tensor({3}, 5);
  const auto f = custom_vjp([&](const Tensor& x) { return std::pair(x * w, x); },
                            [&](const Tensor& x, const Tensor& g) { return g * v * x; });
  const Tensor x = random_tensor({3}, 6);
  expect_near(in_both_modes(grad([&](const Tensor& t) { return sum(f(t)); }), x), v * x);
}

TEST(CustomVjp, CapturedVariablesAreAnError) {
  const int line = __LINE__ + 2;
  const auto f = [](const Tensor& w) {
    return sum(custom_vjp([&](const Tensor& x) { return std::pair(x * w, x); },
                          [](const Tensor&, const Tensor& g) { return g; })(f64({1, 2})));
  };
  EXPECT_THAT(error_of([&] {
                grad(f)(f64({1, 2}));
              }),
              AllOf(HasSubstr("the forward function uses a tensor of type f64[2] from outside"),
                    HasSubstr(fmt::format("custom_vjp_test.cc:{}; pass it", line))));
}

TEST(CustomVjp, ChecksTheCotangents) {
  const auto identity = [](const Tensor& x) { return std::pair(x, std::tuple<>{}); };
  const int line = __LINE__ + 2;
  const auto two =
      custom_vjp(identity, [](const std::tuple<>&, const Tensor& g) { return std::pair(g, g); });
  EXPECT_THAT(error_of([&] { two(f64({1})); }),
              AllOf(HasSubstr("the backward function gives 2 tensors for 1 inputs, at "),
                    HasSubstr(fmt::format("custom_vjp_test.cc:{}", line))));
  const auto wide =
      custom_vjp(identity, [](const std::tuple<>&, const Tensor& g) { return sum(g); });
  EXPECT_THAT(error_of([&] { wide(f64({1, 2})); }), HasSubstr("gives f64[] for input 0 of f64[2]"));
}

TEST(CustomVjp, HasNoForwardMode) {
  EXPECT_THAT(error_of([] { jvp(exp_like(1), f64({1}), f64({1})); }),
              HasSubstr("no forward-mode derivative; take second derivatives"));
}

}  // namespace
}  // namespace mstrain
