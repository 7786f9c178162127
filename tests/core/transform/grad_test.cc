#include "core/transform/grad.h"

#include "core/transform/jacobian.h"
#include "core/transform/recompute.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

Tensor cube(const Tensor& x) { return x * x * x; }

TEST(Grad, KnownDerivatives) {
  const struct {
    Tensor (*f)(const Tensor&);
    double (*derivative)(double);
  } cases[] = {
      {[](const Tensor& x) { return exp(2 * x); }, [](double x) { return 2 * std::exp(2 * x); }},
      {[](const Tensor& x) { return sin(x) * cos(x); }, [](double x) { return std::cos(2 * x); }},
      {[](const Tensor& x) { return log(x * x + 1); },
       [](double x) { return 2 * x / (x * x + 1); }},
      {[](const Tensor& x) { return 1 / (1 + exp(-x)); },
       [](double x) {
         const double s = 1 / (1 + std::exp(-x));
         return s * (1 - s);
       }},
      {[](const Tensor& x) { return tanh(x) - x / 3; },
       [](double x) { return 1 - std::tanh(x) * std::tanh(x) - 1.0 / 3; }},
      {[](const Tensor& x) { return sqrt(x * x + 2); },
       [](double x) { return x / std::sqrt(x * x + 2); }},
      {[](const Tensor& x) { return pow(x * x, 1.5); },
       [](double x) { return 3 * x * std::abs(x); }},
      {[](const Tensor& x) { return where(x > 0, x * x, -3 * x); },
       [](double x) { return x > 0 ? 2 * x : -3; }},
      {[](const Tensor& x) { return stop_gradient(x) * x; }, [](double x) { return x; }},
      {[](const Tensor& x) { return x - x; }, [](double) { return 0.0; }},
  };
  for (const auto& [f, derivative] : cases) {
    for (double x : {-1.3, -0.2, 0.4, 2.1}) {
      const Tensor slope = in_both_modes([&f = f](const Tensor& t) { return grad(f)(t); }, f64(x));
      EXPECT_NEAR(item(slope), derivative(x), 1e-12 * std::max(1.0, std::abs(derivative(x))))
          << "at " << x;
    }
  }
}

TEST(Grad, OfAFunctionThatIgnoresItsArgumentIsZero) {
  const Tensor slope = in_both_modes(
      [](const Tensor& x) {
        return grad([](const Tensor&) { return full({}, 2, Dtype::kF64); })(x);
      },
      random_tensor({2, 3}, 1));
  expect_equal(slope, zeros({Dtype::kF64, {2, 3}}));
}

TEST(Grad, SecondDerivativeOfACube) {
  for (double x : {-2.0, 0.0, 0.5, 3.0}) {
    const Tensor second =
        in_both_modes([](const Tensor& t) { return grad(grad(cube))(t); }, f64(x));
    EXPECT_DOUBLE_EQ(item(second), 6 * x);
  }
}

TEST(Grad, ThirdAndFourthOrder) {
  const auto third_exp = grad(grad(grad([](const Tensor& x) { return exp(2 * x); })));
  EXPECT_NEAR(item(in_both_modes(third_exp, f64(0.3))), 8 * std::exp(0.6), 1e-12);
  const auto third_sin = grad(grad(grad([](const Tensor& x) { return sin(x); })));
  EXPECT_NEAR(item(in_both_modes(third_sin, f64(0.7))), -std::cos(0.7), 1e-14);
  const auto fourth = grad(grad(grad(grad([](const Tensor& x) { return cube(x) * x; }))));
  EXPECT_NEAR(item(in_both_modes(fourth, f64(-1.7))), 24, 1e-12);
}

// f(X) = sum (X X) with W fixed: third differences of a cubic are exact.
TEST(Grad, ThirdOrderThroughMatmul) {
  const Tensor w = random_tensor({3, 3}, 2);
  const auto f = [&](const Tensor& x) { return sum(matmul(matmul(x, w), x) * x); };
  const Tensor x = random_tensor({3, 3}, 3);
  const Tensor v = random_tensor({3, 3}, 4);
  const auto along = [&](const auto& g) {
    return [&, g](const Tensor& t) { return sum(grad(g)(t) * v); };
  };
  const double third = item(in_both_modes(along(along(along(f))), x));
  const auto at = [&](double s) { return item(f(x + s * v)); };
  EXPECT_NEAR(third, (at(3) - 3 * at(2) + 3 * at(1) - at(0)), 1e-9);
}

struct Layer {
  Tensor weight, bias;
  template <class V>
  void fields(V& v) {
    v("weight", weight);
    v("bias", bias);
  }
};

Tensor layer_loss(const Layer& p, const Tensor& x) {
  return sum(square(tanh(matmul(x, p.weight) + p.bias)));
}

TEST(Grad, OfATreeIsATree) {
  const Layer layer{random_tensor({4, 2}, 5), random_tensor({2}, 6)};
  const Tensor x = random_tensor({5, 4}, 7);
  const auto [value, gradient] = in_both_modes(
      [&](const Layer& p, const Tensor& t) { return value_and_grad(layer_loss)(p, t); }, layer, x);
  expect_equal(value, layer_loss(layer, x));
  const double h = 1e-6;
  for (int64_t i = 0; i < 2; ++i) {
    std::vector<double> step(2, 0.0);
    step[static_cast<size_t>(i)] = h;
    const Tensor delta = tensor<double>(step, {2});
    const double slope = (item(layer_loss({layer.weight, layer.bias + delta}, x)) -
                          item(layer_loss({layer.weight, layer.bias - delta}, x))) /
                         (2 * h);
    EXPECT_NEAR(to_doubles(gradient.bias)[static_cast<size_t>(i)], slope, 1e-8);
  }
  EXPECT_EQ(gradient.weight.shape(), Shape({4, 2}));
}

TEST(Grad, PassesOnWhatTheFunctionReturnsBesides) {
  const auto f = [](const Tensor& x) { return std::pair(sum(x * x), x * 2); };
  const auto [result, gradient] = value_and_grad(f)(f64({1, 2}));
  EXPECT_EQ(item(result.first), 5);
  EXPECT_THAT(to_doubles(result.second), testing::ElementsAre(2, 4));
  EXPECT_THAT(to_doubles(gradient), testing::ElementsAre(2, 4));
}

TEST(Grad, EveryUseOfAnArgumentCounts) {
  const Tensor x = f64(3);
  const auto same_twice = [](const std::pair<Tensor, Tensor>& p) {
    return p.first * p.second + p.first;
  };
  const auto [first, second] =
      in_both_modes([&](const Tensor& t) { return grad(same_twice)(std::pair(t, t)); }, x);
  EXPECT_EQ(item(first), 4);
  EXPECT_EQ(item(second), 3);
}

// x d/dy (x y) = x², whose derivative is 2x: confusing the two perturbations gives another answer.
TEST(Grad, NestedPerturbationsAreNotConfused) {
  const auto outer = [](const Tensor& x) {
    return x * grad([&](const Tensor& y) { return x * y; })(f64(1));
  };
  EXPECT_EQ(item(in_both_modes(grad(outer), f64(5))), 10);
  // d/dx (x · d/dy (x + y) at y = 1) = 1, the classic of Siskind and Pearlmutter.
  const auto classic = [](const Tensor& x) {
    return x * grad([&](const Tensor& y) { return x + y; })(f64(1));
  };
  EXPECT_EQ(item(in_both_modes(grad(classic), f64(1))), 1);
  const auto forward = [](const Tensor& x) {
    return x * jvp([&](const Tensor& y) { return x + y; }, f64(1), f64(1)).second;
  };
  EXPECT_EQ(item(jvp(forward, f64(1), f64(1)).second), 1);
  // Inner and outer derivative with respect to the same value.
  const auto twice = [](const Tensor& x) {
    return grad([&](const Tensor& y) { return cube(y) * x; })(x);
  };
  EXPECT_EQ(item(in_both_modes(grad(twice), f64(2))), 36);  // d/dx 3x³
  // Mixed modes: forward over reverse over forward.
  const auto mixed = [&](const Tensor& x) {
    return grad([](const Tensor& y) {
      return jvp([](const Tensor& z) { return cube(z) * z; }, y, full({}, 1, Dtype::kF64)).second;
    })(x);
  };
  EXPECT_NEAR(item(jvp(mixed, f64(1.5), f64(1)).second), 24 * 1.5, 1e-12);
}

TEST(Grad, ReachesWhatAnInnerFunctionCaptures) {
  const Tensor x = random_tensor({3}, 8);
  const Tensor constant = random_tensor({3}, 9);
  const auto f = [&](const Tensor& t) {
    const auto inner = [&](const Tensor& y) { return sum(y * y * t * constant); };
    return sum(grad(inner)(constant) * t);
  };
  // inner' = 2 c t c, so f = Σ 2 c² t², f' = 4 c² t.
  expect_near(in_both_modes(grad(f), x), 4 * constant * constant * x);
}

TEST(Grad, EagerFunctionsMayBranchOnValues) {
  const auto f = [](const Tensor& x) {
    Tensor y = x;
    while (item(y) < 10) {
      y = y * 2;
    }
    return item(x) > 1 ? y * y : y;
  };
  EXPECT_EQ(item(grad(f)(f64(3))), 2 * 12 * 4);
  EXPECT_EQ(item(grad(f)(f64(0.5))), 32);
  EXPECT_EQ(item(grad(grad(f))(f64(3))), 2 * 16);
}

TEST(Grad, NeedsAFloatingScalar) {
  EXPECT_THAT(error_of([] {
                grad([](const Tensor& x) { return x * x; })(f64({1, 2}));
              }),
              HasSubstr("must return one floating-point number, it returned f64[2]"));
  EXPECT_THAT(error_of([] {
                grad([](const Tensor& x) { return cast(sum(x), Dtype::kI32); })(f64({1, 2}));
              }),
              HasSubstr("it returned i32[]"));
  EXPECT_THAT(error_of([] {
                grad([](const Tensor& x) { return sum(x); })(cast(f64({1, 2}), Dtype::kI32));
              }),
              testing::AllOf(HasSubstr("grad: argument 0 is i32[2]"), HasSubstr("grad_test.cc:"),
                             HasSubstr("cast()")));
}

TEST(Grad, IntegerArgumentsHaveZeroDerivatives) {
  const Tensor ids = vector({1, 2, 3}, Dtype::kI32);
  const auto f = [](const std::pair<Tensor, Tensor>& p) {
    return sum(cast(p.first, Dtype::kF64) * p.second);
  };
  const auto [to_ids, to_x] =
      in_both_modes([&](const std::pair<Tensor, Tensor>& p) { return grad(f)(p); },
                    std::pair(ids, f64({1, 1, 1})));
  expect_equal(to_ids, zeros_like(ids));
  EXPECT_THAT(to_doubles(to_x), testing::ElementsAre(1, 2, 3));
}

Tensor tanh_network(const Tensor& x) {
  const Tensor w = random_tensor({4, 3}, 10);
  return tanh(matmul(sin(x), w)) * exp(sum(x, {1}, true) * 0.1);
}

TEST(Grad, ForwardAndReverseAgree) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Tensor x = random_tensor({2, 4}, 100 + seed);
    const Tensor v = random_tensor({2, 4}, 200 + seed);
    const Tensor w = random_tensor({2, 3}, 300 + seed);
    const auto [value, tangent] =
        in_both_modes([&](const Tensor& t) { return jvp(tanh_network, t, v); }, x);
    const auto [again, cotangent] =
        in_both_modes([&](const Tensor& t) { return vjp(tanh_network, t, w); }, x);
    expect_equal(value, tanh_network(x));
    expect_equal(again, value);
    EXPECT_NEAR(dot(tangent, w), dot(v, cotangent), 1e-12);
  }
}

TEST(Grad, CotangentsAndTangentsAreCheckedAtTheUsersLine) {
  const Tensor x = random_tensor({2, 4}, 1);
  const auto at = [](int line) {
    return fmt::format(", at tests/core/transform/grad_test.cc:{}", line);
  };
  // Outside of macros, whose arguments compilers place otherwise.
  const int line = __LINE__;
  const std::string of_vjp = error_of([&] { vjp(tanh_network, x, x); });
  const std::string of_jvp = error_of([&] { jvp(tanh_network, x, transpose(x)); });
  EXPECT_EQ(of_vjp, "vjp: a cotangent is f64[2, 4], its value f64[2, 3]" + at(line + 1));
  EXPECT_EQ(of_jvp, "jvp: a tangent is f64[4, 2], its value f64[2, 4]" + at(line + 2));
  const auto f = [](const std::vector<Tensor>& xs) { return xs[0]; };
  EXPECT_THAT(error_of([&] {
                jvp(f, std::vector<Tensor>{f64(1), f64(2)}, std::vector<Tensor>{f64(1)});
              }),
              HasSubstr("1 tangents were given for an argument of 2 tensors"));
}

TEST(Grad, EmptyTensorsAreErrorsThatNameTheArgument) {
  const auto f = [](const Tensor& x) { return sum(x * x); };
  const auto empty = [](std::string_view name) {
    return HasSubstr(fmt::format(
        "{}: argument 0 is an empty tensor, at tests/core/transform/grad_test.cc:", name));
  };
  EXPECT_THAT(error_of([&] { grad(f)(Tensor()); }), empty("grad"));
  EXPECT_THAT(error_of([&] { value_and_grad(f)(Tensor()); }), empty("value_and_grad"));
  EXPECT_THAT(error_of([&] { vjp(f, Tensor(), f64(1)); }), empty("vjp"));
  EXPECT_THAT(error_of([&] { jvp(f, Tensor(), Tensor()); }), empty("jvp"));
  EXPECT_THAT(error_of([&] { jacobian(f)(Tensor()); }), empty("jacobian"));
  EXPECT_THAT(error_of([&] { jacobian_forward(f)(Tensor()); }), empty("jacobian_forward"));
  EXPECT_THAT(error_of([&] { hessian(f)(Tensor()); }), empty("hessian"));
  EXPECT_THAT(error_of([&] { recompute(f)(Tensor()); }), HasSubstr("empty tensor"));
  const auto of_second = [](const Tensor&, const std::vector<Tensor>& ys) { return sum(ys[0]); };
  EXPECT_THAT(error_of([&] {
                grad<1>(of_second)(f64(1), std::vector<Tensor>{f64(1), Tensor()});
              }),
              HasSubstr("grad: argument 1.1 is an empty tensor"));
  const auto nothing = [](const Tensor&) { return Tensor(); };
  EXPECT_THAT(error_of([&] { vjp(nothing, f64(1), f64(1)); }),
              HasSubstr("vjp: the function returned an empty tensor"));
  EXPECT_THAT(error_of([&] { jvp(nothing, f64(1), f64(1)); }),
              HasSubstr("jvp: the function returned an empty tensor"));
}

TEST(Grad, HessianVectorProductsAgreeWithTheDenseHessian) {
  const auto f = [](const Tensor& x) { return sum(tanh_network(reshape(x, {2, 4}))); };
  const Tensor x = random_tensor({8}, 11);
  const Tensor v = random_tensor({8}, 12);
  const Tensor dense = in_both_modes(hessian(f), x);
  const Tensor expected = matmul(dense, v);
  const auto forward_over_reverse = [&](const Tensor& t) { return jvp(grad(f), t, v).second; };
  const auto reverse_over_reverse = [&](const Tensor& t) {
    return grad([&](const Tensor& y) { return sum(grad(f)(y) * v); })(t);
  };
  const auto reverse_over_forward = [&](const Tensor& t) {
    return grad([&](const Tensor& y) { return jvp(f, y, v).second; })(t);
  };
  expect_near(in_both_modes(forward_over_reverse, x), expected, 1e-11);
  expect_near(in_both_modes(reverse_over_reverse, x), expected, 1e-11);
  expect_near(in_both_modes(reverse_over_forward, x), expected, 1e-11);
  expect_near(dense, transpose(dense), 1e-12);
}

}  // namespace
}  // namespace mstrain
