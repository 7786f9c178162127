// Derivatives of every operation: in f64 against central differences, in both modes and to second order, on both
// backends; in shorter types against the reference.
#include <cmath>
#include <limits>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

using DerivativeOfOp = OpTest;

// An operation as a function of its floating-point inputs that gives its floating-point outputs. In f64, outputs of
// shorter types are left out: differences do not see through their rounding.
struct Function {
  Case it;
  Tensors inputs;  // all
  std::vector<size_t> variables;

  explicit Function(const Case& given) : it(given), inputs(inputs_of(given)) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (is_floating(inputs[i].dtype())) {
        variables.push_back(i);
      }
    }
  }
  Tensors at() const {
    Tensors x;
    for (size_t i : variables) {
      x.push_back(inputs[i]);
    }
    return x;
  }
  Tensors operator()(const Tensors& x) const {
    Tensors all = inputs;
    for (size_t i = 0; i < variables.size(); ++i) {
      all[variables[i]] = x[i];
    }
    Tensors floating;
    for (const Tensor& result : run(it, all)) {
      const bool rounded = it.dtype == Dtype::kF64 && result.dtype() != Dtype::kF64;
      if (is_floating(result.dtype()) && !rounded) {
        floating.push_back(result);
      }
    }
    return floating;
  }
};

// Like y, but 0 where y is infinite, as the logsumexp of nothing is: such elements take no part.
Tensors random_weights(const Tensors& y, uint64_t seed) {
  Tensors result = random_like_all(y, seed);
  for (size_t i = 0; i < y.size(); ++i) {
    result[i] = where(abs(y[i]) < std::numeric_limits<double>::infinity(), result[i], 0);
  }
  return result;
}

// Zeros of `a` count for nothing, whatever b holds there.
double dot(const Tensors& a, const Tensors& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = to_doubles(a[i]);
    const std::vector<double> y = to_doubles(b[i]);
    for (size_t j = 0; j < x.size(); ++j) {
      total += x[j] == 0 ? 0 : x[j] * y[j];
    }
  }
  return total;
}

// Σ w · f(x) as a tensor, for derivatives of derivatives.
Tensor weighted(const Tensors& a, const Tensors& w) {
  Tensor total = full({}, 0, Dtype::kF64);
  for (size_t i = 0; i < a.size(); ++i) {
    total = total + sum(cast(a[i], Dtype::kF64) * cast(w[i], Dtype::kF64));
  }
  return total;
}

Tensors moved(const Tensors& x, const Tensors& direction, double step) {
  Tensors result;
  for (size_t i = 0; i < x.size(); ++i) {
    result.push_back(x[i] + step * direction[i]);
  }
  return result;
}

// d/ds g(x + s v) at 0 by differences of fourth order.
template <class G>
double slope(const G& g, const Tensors& x, const Tensors& v) {
  const double h = 1e-4;
  return (8 * (g(moved(x, v, h)) - g(moved(x, v, -h))) -
          (g(moved(x, v, 2 * h)) - g(moved(x, v, -2 * h)))) /
         (12 * h);
}

// Rounding of about 1e-16 / h beside values of the size of `scale`, and h⁴ times a fifth derivative.
void expect_slope(double actual, double expected, double scale, const char* what) {
  EXPECT_NEAR(actual, expected, 1e-7 * std::max({1.0, std::abs(expected), scale})) << what;
}

bool smooth_here(const Function& f, const Tensors& v, const Tensors& w) {
  // A kink within the differences shows as slopes that differ between step sizes.
  const auto value = [&](const Tensors& x) { return dot(w, f(x)); };
  const Tensors x = f.at();
  const auto central = [&](double h) {
    return (value(moved(x, v, h)) - value(moved(x, v, -h))) / (2 * h);
  };
  const double a = central(2e-4);
  const double b = central(5e-5);
  return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b));
}

void expect_first_order(const OpDef& op) {
  const Dtype f64 = Dtype::kF64;
  int checked = 0;
  int with_variables = 0;
  for (const Backend* backend : {backend_named("reference"), backend_named("cpu")}) {
    const ContextScope scope(context_of(backend));
    for (const Case& it : some(cases_of(op, std::span(&f64, 1)), 14)) {
      SCOPED_TRACE(to_string(it));
      const Function f(it);
      const Tensors x = f.at();
      if (x.empty() || f(x).empty()) {
        continue;
      }
      ++with_variables;
      for (uint64_t seed = 0; seed < (long_tests() ? 10U : 2U); ++seed) {
        const Tensors y = f(x);
        const Tensors v = random_like_all(x, 10 + seed);
        const Tensors w = random_weights(y, 20 + seed);
        const Tensors pulled = vjp(f, x, w).second;
        const Tensors pushed = jvp(f, x, v).second;
        ASSERT_NEAR(dot(w, pushed), dot(v, pulled), 1e-11 * std::max(1.0, std::abs(dot(v, pulled))))
            << "the modes differ";
        if (!op.smooth && !smooth_here(f, v, w)) {
          continue;
        }
        ++checked;
        if (op.name == "stop_gradient") {
          EXPECT_EQ(dot(v, pulled), 0);  // by its definition, not by its values
          continue;
        }
        const double expected = slope([&](const Tensors& at) { return dot(w, f(at)); }, x, v);
        expect_slope(dot(v, pulled), expected, 0, "reverse mode");
        // Each input on its own, so that a wrong one is named.
        for (size_t i = 0; testing::Test::HasFailure() && i < x.size(); ++i) {
          Tensors only = v;
          for (size_t j = 0; j < x.size(); ++j) {
            only[j] = j == i ? v[j] : zeros_like(v[j]);
          }
          const double one = slope([&](const Tensors& at) { return dot(w, f(at)); }, x, only);
          EXPECT_NEAR(dot(only, pulled), one, 1e-7 * std::max(1.0, std::abs(one)))
              << "input " << f.variables[i];
        }
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
  EXPECT_TRUE(checked > 0 || with_variables == 0) << "every sample lies at a kink";
}

void expect_second_order(const OpDef& op) {
  const Dtype f64 = Dtype::kF64;
  for (const Backend* backend : {backend_named("reference"), backend_named("cpu")}) {
    const ContextScope scope(context_of(backend));
    int used = 0;
    for (const Case& it : cases_of(op, std::span(&f64, 1))) {
      if (!is_small(it, 300) || used >= (long_tests() ? 100 : 5)) {
        continue;
      }
      ++used;
      SCOPED_TRACE(to_string(it));
      const Function f(it);
      const Tensors x = f.at();
      if (x.empty() || f(x).empty()) {
        continue;
      }
      const Tensors u = random_like_all(x, 30);
      const Tensors v = random_like_all(x, 40);
      const Tensors w = random_weights(f(x), 50);
      // u · ∂(w · f), whose slope along v is a second derivative.
      const auto reverse = [&](const Tensors& at) { return weighted(vjp(f, at, w).second, u); };
      const auto forward = [&](const Tensors& at) { return weighted(jvp(f, at, u).second, w); };
      const double expected = slope([&](const Tensors& at) { return item(reverse(at)); }, x, v);
      // The first derivative is the size of what the differences cancel.
      const double scale = std::abs(item(reverse(x)));
      expect_slope(item(jvp(reverse, x, v).second), expected, scale, "forward over reverse");
      expect_slope(dot(grad(reverse)(x), v), expected, scale, "reverse over reverse");
      expect_slope(item(jvp(forward, x, v).second), expected, scale, "forward over forward");
      expect_slope(dot(grad(forward)(x), v), expected, scale, "reverse over forward");
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

void expect_shorter_types(const OpDef& op) {
  const Dtype shorter[] = {Dtype::kF32, Dtype::kBF16, Dtype::kF16};
  for (const Case& it : some(cases_of(op, shorter), 24)) {
    SCOPED_TRACE(to_string(it));
    const Function f(it);
    const Tensors x = f.at();
    if (x.empty()) {
      continue;
    }
    const auto pulled = [&](const Backend* backend, const Tensors& w) {
      const ContextScope scope(context_of(backend));
      return vjp(f, x, w).second;
    };
    const auto pushed = [&](const Backend* backend, const Tensors& v) {
      const ContextScope scope(context_of(backend));
      return jvp(f, x, v).second;
    };
    const Tensors w = random_weights(f(x), 60);
    const Tensors v = random_like_all(x, 70);
    // A derivative is several operations, each rounded to the type: a few times the tolerance of one.
    const auto expect_close = [&](const Tensors& actual, const Tensors& expected,
                                  const char* what) {
      for (size_t i = 0; i < expected.size(); ++i) {
        const Dtype dtype = compared_dtype(it, expected[i].dtype());
        Tolerance tolerance = tolerance_for(*it.op, dtype, {}, expected);
        tolerance.relative = 4 * rounding_of(dtype);
        tolerance.scale = std::max(tolerance.scale, 1.0);
        ASSERT_EQ(difference(actual[i], expected[i], tolerance), "") << what << ", " << i;
      }
    };
    expect_close(pulled(backend_named("cpu"), w), pulled(backend_named("reference"), w),
                 "reverse mode");
    expect_close(pushed(backend_named("cpu"), v), pushed(backend_named("reference"), v),
                 "forward mode");
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

void expect_both_modes(const OpDef& op) {
  const ContextScope scope(context_of(backend_named("cpu")));
  const Dtype dtypes[] = {Dtype::kF32, Dtype::kF16};
  for (const Case& it : some(cases_of(op, dtypes), 6)) {
    SCOPED_TRACE(to_string(it));
    const Function f(it);
    const Tensors x = f.at();
    if (x.empty()) {
      continue;
    }
    const Tensors w = random_weights(f(x), 80);
    const auto g = [&](const Tensors& at, const Tensors& ct) { return vjp(f, at, ct); };
    const auto [value, eager] = g(x, w);
    const auto [same_value, exact] = jit(g, {.level = 0})(x, w);
    const auto [near_value, optimised] = jit(g)(x, w);
    for (size_t i = 0; i < eager.size(); ++i) {
      ASSERT_EQ(bit_difference(exact[i], eager[i]), "") << "input " << i;
      // Sums may be joined in another order.
      const Dtype dtype = compared_dtype(it, eager[i].dtype());
      Tolerance tolerance = tolerance_for(*it.op, dtype, x, eager);
      tolerance.relative = rounding_of(dtype);
      ASSERT_EQ(difference(optimised[i], eager[i], tolerance), "") << "input " << i;
    }
    for (size_t i = 0; i < value.size(); ++i) {
      ASSERT_EQ(bit_difference(same_value[i], value[i]), "");
    }
  }
}

TEST_P(DerivativeOfOp, AgreesWithDifferencesTheReferenceAndGraphMode) {
  expect_first_order(op());
  if (op().smooth && !HasFailure()) {
    expect_second_order(op());
  }
  expect_shorter_types(op());
  expect_both_modes(op());
}

MSTRAIN_FOR_OPS(DerivativeOfOp, has_floating_derivative);

}  // namespace
}  // namespace mstrain
