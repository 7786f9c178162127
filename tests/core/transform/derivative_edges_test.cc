// Values and derivatives of elementwise operations and products where formulas meet 0 · inf, inf / inf and the like: both directions, in
// f32 and f64, on both backends.
#include <cmath>
#include <limits>

#include "core/ir/backend.h"
#include "core/ops/elementwise.h"
#include "core/transform/jacobian.h"
#include "tests/amount.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Unary = Tensor (*)(const Arg&);
using Binary = Tensor (*)(const Arg&, const Arg&);

using Function = std::function<Tensor(std::span<const Tensor>)>;

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::vector<Tensor> tensors(const std::vector<double>& x, Dtype dtype) {
  std::vector<Tensor> result;
  for (double value : x) {
    result.push_back(cast(f64({value}), dtype));
  }
  return result;
}

// The derivative of f by argument `by` at x, in reverse and in forward mode, which agree.
double derivative(const Function& f, const std::vector<double>& x, size_t by, Dtype dtype) {
  const std::vector<Tensor> at = tensors(x, dtype);
  const auto along = [&](const Tensor& varied) {
    std::vector<Tensor> inputs = at;
    inputs[by] = varied;
    return sum(f(inputs));
  };
  const double reverse = item(grad(along)(at[by]));
  const double forward = item(jvp(along, at[by], full({1}, 1, dtype)).second);
  EXPECT_TRUE(same(reverse, forward))
      << reverse << " in reverse, " << forward << " in forward mode";
  return reverse;
}

template <class Check>
void on_both_backends(const Check& check) {
  for (const Backend* backend : {backend_named("reference"), backend_named("cpu")}) {
    Context context = current_context();
    context.backend = backend;
    const ContextScope scope(context);
    for (const Dtype dtype : {Dtype::kF64, Dtype::kF32}) {
      SCOPED_TRACE(fmt::format("{} on {}", name_of(dtype), backend->name));
      check(dtype);
    }
  }
}

void expect_derivative(const Function& f, const char* name, const std::vector<double>& x, size_t by,
                       double expected) {
  on_both_backends([&](Dtype dtype) {
    EXPECT_EQ(derivative(f, x, by, dtype), expected)
        << name << " at " << testing::PrintToString(x) << " by argument " << by;
  });
}

// A row of the table as a function of numbers, with what its values near a point say of its derivatives there.
class Row {
 public:
  explicit Row(const OpDef& op) : op_(op), row_(*elementwise_op(op)) {}

  size_t arity() const { return static_cast<size_t>(row_.arity); }

  void check_at(const std::vector<double>& x) const {
    SCOPED_TRACE(fmt::format("{} at {}", row_.name, testing::PrintToString(x)));
    on_both_backends([&](Dtype dtype) {
      check_value(x, dtype);
      if (std::isnan(exact(x))) {
        return;
      }
      for (size_t by = 0; by < x.size(); ++by) {
        const double slope = derivative(function(), x, by, dtype);
        EXPECT_FALSE(std::isnan(slope)) << "by argument " << by;
        check_quotients(x, by, slope);
        check_limit(x, by, dtype, slope);
      }
    });
  }

 private:
  static constexpr double kFar[] = {1e4 + 0.3, 1e8 + 0.8};  // at different places of any period

  double exact(const std::vector<double>& x) const { return row_.evaluate(x.data()); }
  double value(const std::vector<double>& x, Dtype dtype) const {
    return item(function()(tensors(x, dtype)));
  }
  Function function() const {
    return [this](std::span<const Tensor> x) {
      return apply(op_, x, {}, SourceLocation::current())[0];
    };
  }

  // The number that `f` has come to where the argument that is infinite in x is far out; nothing where it goes on.
  template <class F>
  static std::optional<double> limit(const std::vector<double>& x, const F& f) {
    const auto infinite = std::find_if(x.begin(), x.end(), [](double v) { return std::isinf(v); });
    if (infinite == x.end() || std::any_of(x.begin(), x.end(), [](double v) {
          return v == 0 && std::signbit(v);  // its powers have the sign of those of -1
        })) {
      return std::nullopt;
    }
    double reached[2];
    for (size_t i = 0; i < 2; ++i) {
      std::vector<double> far = x;
      far[static_cast<size_t>(infinite - x.begin())] = std::copysign(kFar[i], *infinite);
      reached[i] = f(far);
    }
    const bool settled = reached[0] == reached[1] || std::abs(reached[0] - reached[1]) < 1e-6;
    return settled ? std::optional(reached[1]) : std::nullopt;
  }

  static void expect_close(double actual, double expected, const char* what) {
    EXPECT_TRUE(actual == expected || std::abs(actual - expected) < 1e-5)
        << what << ": " << actual << " instead of " << expected;
  }

  void check_value(const std::vector<double>& x, Dtype dtype) const {
    const double here = value(x, dtype);
    EXPECT_EQ(std::isnan(here), std::isnan(exact(x)));
    // 0 · inf has none, wherever its factors came from.
    if (const auto reached = limit(x, [&](const auto& far) { return exact(far); });
        reached && x.size() == 1) {
      expect_close(here, *reached, "the limit of values");
    }
  }

  // Where values to both sides give slopes, the derivative lies between them.
  void check_quotients(const std::vector<double>& x, size_t by, double slope) const {
    constexpr double kStep = 1e-6;
    constexpr double kJump = 1e3;
    const double here = exact(x);
    const auto quotient = [&](double step) {
      std::vector<double> beside = x;
      beside[by] += step;
      return (exact(beside) - here) / step;
    };
    const double below = quotient(-kStep);
    const double above = quotient(kStep);
    if (std::abs(below) < kJump && std::abs(above) < kJump && std::isfinite(x[by])) {
      const double tolerance = 1e-4 * std::max(1.0, std::abs(slope));
      EXPECT_GE(slope, std::min(below, above) - tolerance) << "by argument " << by;
      EXPECT_LE(slope, std::max(below, above) + tolerance) << "by argument " << by;
    }
  }

  void check_limit(const std::vector<double>& x, size_t by, Dtype dtype, double slope) const {
    const auto reached =
        limit(x, [&](const auto& far) { return derivative(function(), far, by, dtype); });
    if (reached) {
      expect_close(slope, *reached, "the limit of derivatives");
    }
  }

  const OpDef& op_;
  const ElementwiseOp& row_;
};

// Every row: a derivative is a number wherever the value is one, lies between the slopes to both sides, and at infinity is
// what it comes to on the way there.
TEST(DerivativeEdges, OfEveryRowOfTheTableAreNumbers) {
  const double kPoints[] = {0, -0.0, 1, -1, kInfinity, -kInfinity};
  int visited = 0;
  for (const OpDef& op : elementwise_ops()) {
    const Row row(op);
    // Conditions have no derivative, selections and conversions that of an operand; and stop_gradient says another one
    // than that of its values.
    if (elementwise_op(op)->kind != ElementwiseOp::Kind::kNumbers ||
        !accepts(op.dtypes, Dtype::kF64) || op.name == "stop_gradient") {
      continue;
    }
    ++visited;
    for (double x : kPoints) {
      if (row.arity() == 1) {
        row.check_at({x});
        continue;
      }
      for (double y : kPoints) {
        if (kSanitized && (std::signbit(x) || std::signbit(y))) {
          continue;
        }
        if (!(std::isinf(x) && std::isinf(y))) {
          row.check_at({x, y});
        }
      }
    }
  }
  EXPECT_GT(visited, 30);
}

TEST(DerivativeEdges, OfFunctionsOfOneNumber) {
  struct Edge {
    const char* name;
    Unary f;
    double x, expected;
  };
  const Edge kEdges[] = {
      {"abs", abs, 0, 0},
      {"abs", abs, -0.0, 0},
      {"abs", abs, -kInfinity, -1},
      {"relu", relu, 0, 0},
      {"relu", relu, kInfinity, 1},
      {"relu", relu, -kInfinity, 0},
      {"sqrt", sqrt, 0, kInfinity},
      {"sqrt", sqrt, kInfinity, 0},
      {"rsqrt", rsqrt, 0, -kInfinity},
      {"rsqrt", rsqrt, kInfinity, 0},
      {"exp", exp, -kInfinity, 0},
      {"exp", exp, kInfinity, kInfinity},
      {"expm1", expm1, -kInfinity, 0},
      {"expm1", expm1, 0, 1},
      {"log", log, 0, kInfinity},
      {"log", log, kInfinity, 0},
      {"log1p", log1p, -1, kInfinity},
      {"log1p", log1p, kInfinity, 0},
      {"sin", sin, -0.0, 1},
      {"cos", cos, 0, 0},
      {"tanh", tanh, kInfinity, 0},
      {"tanh", tanh, -kInfinity, 0},
      {"tanh", tanh, 0, 1},
      {"erf", erf, kInfinity, 0},
      {"erf", erf, -kInfinity, 0},
      {"sigmoid", sigmoid, kInfinity, 0},
      {"sigmoid", sigmoid, -kInfinity, 0},
      {"softplus", softplus, kInfinity, 1},
      {"softplus", softplus, -kInfinity, 0},
      {"silu", silu, kInfinity, 1},
      {"silu", silu, -kInfinity, 0},
      {"silu", silu, 0, 0.5},
      {"gelu", gelu, kInfinity, 1},
      {"gelu", gelu, -kInfinity, 0},
      {"gelu_tanh", gelu_tanh, kInfinity, 1},
      {"gelu_tanh", gelu_tanh, -kInfinity, 0},
  };
  for (const Edge& edge : kEdges) {
    expect_derivative([&](std::span<const Tensor> x) { return edge.f(x[0]); }, edge.name, {edge.x},
                      0, edge.expected);
  }
}

TEST(DerivativeEdges, OfFunctionsOfTwoNumbers) {
  struct Edge {
    const char* name;
    Binary f;
    double x, y;
    double by_x, by_y;
  };
  const Edge kEdges[] = {
      // Equal ones: the first is it.
      {"maximum", maximum, 2, 2, 1, 0},
      {"minimum", minimum, 2, 2, 1, 0},
      {"maximum", maximum, -0.0, 0, 1, 0},
      {"maximum", maximum, kInfinity, kInfinity, 1, 0},
      {"minimum", minimum, -kInfinity, kInfinity, 1, 0},
      {"div", div, 0, kInfinity, 0, 0},
      {"div", div, 3, kInfinity, 0, 0},
      {"remainder", remainder, 3, kInfinity, 1, 0},
      {"remainder", remainder, -3, kInfinity, 1, 1},
      // x^0 is 1 everywhere.
      {"pow", pow, 0, 0, 0, 0},
      {"pow", pow, -0.0, 0, 0, 0},
      {"pow", pow, kInfinity, 0, 0, kInfinity},
      {"pow", pow, 0, 1, 1, 0},
      {"pow", pow, 0, 2, 0, 0},
      {"pow", pow, 0, 0.5, kInfinity, 0},
      {"pow", pow, -2, 3, 12, 0},
      {"pow", pow, 1, 5, 5, 0},
      {"pow", pow, kInfinity, -1, 0, 0},
      {"pow", pow, kInfinity, 2, kInfinity, kInfinity},
      {"pow", pow, 0.5, kInfinity, 0, 0},
      {"pow", pow, 2, -kInfinity, 0, 0},
      {"pow", pow, 0, kInfinity, 0, 0},
  };
  for (const Edge& edge : kEdges) {
    const auto f = [&](std::span<const Tensor> x) { return edge.f(x[0], x[1]); };
    expect_derivative(f, edge.name, {edge.x, edge.y}, 0, edge.by_x);
    expect_derivative(f, edge.name, {edge.x, edge.y}, 1, edge.by_y);
  }
}

// What makes the first derivatives right at the edges leaves the second ones what they are.
TEST(DerivativeEdges, OfPowersASecondTime) {
  const auto second = [](double x, double y) {
    const Tensor exponent = f64({y});
    const auto f = [&](const Tensor& x) { return sum(pow(x, exponent)); };
    return item(grad([&](const Tensor& x) { return sum(grad(f)(x)); })(f64({x})));
  };
  EXPECT_EQ(second(0, 2), 2);
  EXPECT_EQ(second(0, 3), 0);
  EXPECT_EQ(second(2, 3), 12);
  EXPECT_EQ(second(3, 0), 0);
  const auto mixed = [](double x, double y) {
    const Tensor base = f64({x});
    const auto by_x = [&](const Tensor& y) {
      return sum(grad([&](const Tensor& x) { return sum(pow(x, y)); })(base));
    };
    return item(grad(by_x)(f64({y})));
  };
  EXPECT_NEAR(mixed(2, 0), 0.5, 1e-12);  // y x^(y - 1), by y
}

TEST(DerivativeEdges, OfActivationsASecondTime) {
  for (const Unary f : {Unary{silu}, Unary{gelu}, Unary{gelu_tanh}, Unary{softplus}, Unary{tanh}}) {
    for (const double x : {kInfinity, -kInfinity, 1e8, -1e8}) {
      const auto slope = [&](const Tensor& x) {
        return sum(grad([&](const Tensor& x) { return sum(f(x)); })(x));
      };
      EXPECT_EQ(item(grad(slope)(f64({x}))), 0) << x;
    }
  }
}

// Each row of x[n, m] as factors that are multiplied one by one, with a weight for each product on the way.
Tensor products_by_hand(const Tensor& x, bool only_last, bool reverse) {
  Tensor product;
  Tensor total = zeros({x.dtype(), {x.dim(0)}});
  for (int64_t i = 0; i < x.dim(1); ++i) {
    const Tensor factor = select(x, 1, reverse ? x.dim(1) - 1 - i : i);
    product = product.defined() ? product * factor : factor;
    total = only_last ? product : total + product * (i + 1);
  }
  return sum(total);
}

// The derivatives of f up to the third, in every nesting of the two modes up to the second.
template <class F>
Tensors derivatives(const F& f, const Tensor& x) {
  return {grad(f)(x),
          jacobian_forward(f)(x),
          hessian(f)(x),
          jacobian(grad(f))(x),
          jacobian(jacobian_forward(f))(x),
          jacobian_forward(jacobian_forward(f))(x),
          jit(hessian(f))(x),
          jacobian(hessian(f))(x),
          jacobian_forward(jacobian(grad(f)))(x)};
}

template <class F, class G>
void expect_same_derivatives(const F& f, const G& by_hand, const Tensor& x) {
  on_both_backends([&](Dtype dtype) {
    const Tensors actual = derivatives(f, cast(x, dtype));
    const Tensors expected = derivatives(by_hand, cast(x, dtype));
    for (size_t i = 0; i < actual.size(); ++i) {
      SCOPED_TRACE(fmt::format("derivative {} at {}", i, to_text(x)));
      expect_equal(actual[i], expected[i]);  // of small integers: exact
    }
  });
}

TEST(DerivativeEdges, OfProductsOfZerosInEveryOrder) {
  expect_equal(hessian([](const Tensor& x) { return prod(x); })(f64({0, 2, 3})),
               reshape(f64({0, 3, 2, 3, 0, 0, 2, 0, 0}), {3, 3}));
  for (const Tensor& x :
       {reshape(f64({0, 2, 3, 5, 1, 2, 3, 4}), {2, 4}),
        reshape(f64({2, 0, 3, 0, 0, 0, 0, 7}), {2, 4}),
        reshape(f64({2, 0, 3, 0, -1, 2, 0}), {1, 7}), reshape(f64({0, 3}), {1, 2})}) {
    const auto rows = [](const Tensor& x) { return sum(prod(x, {1})); };
    const auto by_hand = [](const Tensor& x) { return products_by_hand(x, true, false); };
    expect_same_derivatives(rows, by_hand, x);
    const auto all = [](const Tensor& x) { return prod(x); };
    const auto all_by_hand = [](const Tensor& x) {
      return products_by_hand(reshape(x, {1, -1}), true, false);
    };
    expect_same_derivatives(all, all_by_hand, x);
    for (const bool reverse : {false, true}) {
      const auto running = [&](const Tensor& x) {
        const Tensor weights = iota({x.dim(1)}, 0, x.dtype()) + 1;
        return sum(cumprod(x, 1, reverse) * (reverse ? flip(weights, {0}) : weights));
      };
      const auto running_by_hand = [&](const Tensor& x) {
        return products_by_hand(x, false, reverse);
      };
      expect_same_derivatives(running, running_by_hand, x);
    }
  }
}

TEST(DerivativeEdges, OfTheGreatestIsSharedAmongAllThatTie) {
  for (const auto& [dtype, ties] : {std::pair(Dtype::kF16, 70000), std::pair(Dtype::kBF16, 300)}) {
    const Tensor x = zeros({dtype, {ties}});
    const auto greatest = [](const Tensor& t) { return cast(max(t), Dtype::kF32); };
    const Tensor each = cast(grad(greatest)(x), Dtype::kF64);
    // The share of one, rounded to a number of few bits.
    EXPECT_NEAR(item(sum(each)), 1, 4e-3) << name_of(dtype);
    const Tensor tangent = jvp(greatest, x, full({ties}, 1, dtype)).second;
    EXPECT_EQ(item(tangent), 1) << name_of(dtype);
  }
}

}  // namespace
}  // namespace mstrain
