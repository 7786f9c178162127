#include "core/transform/scan.h"

#include "core/transform/jacobian.h"
#include "core/transform/recompute.h"
#include "core/transform/vmap.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using Pair = std::pair<Tensor, Tensor>;

// A recurrent network: h' = tanh(h w + x), y = h' h.
Pair step(const Tensor& h, const Tensor& x, const Tensor& w) {
  const Tensor next = tanh(matmul(h, w) + x);
  return {next, next * h};
}

// What scan gives, by a loop in C++.
Pair unrolled(const Tensor& w, const Tensor& h, const Tensor& xs, bool reverse) {
  const int64_t n = xs.dim(0);
  Tensor carry = h;
  Tensors ys(static_cast<size_t>(n));
  for (int64_t t = 0; t < n; ++t) {
    const int64_t i = reverse ? n - 1 - t : t;
    const auto [next, y] = step(carry, select(xs, 0, i), w);
    carry = next;
    ys[static_cast<size_t>(i)] = y;
  }
  return {carry, stack(ys, 0)};
}

Pair scanned(const Tensor& w, const Tensor& h, const Tensor& xs, bool reverse) {
  return scan([&](const Tensor& c, const Tensor& x) { return step(c, x, w); }, h, xs,
              {.reverse = reverse});
}

struct Inputs {
  Tensor w, h, xs;
  template <class V>
  void fields(V& v) {
    v("w", w);
    v("h", h);
    v("xs", xs);
  }
};
Inputs inputs() {
  return {random_tensor({3, 3}, 1), random_tensor({2, 3}, 2), random_tensor({5, 2, 3}, 3)};
}

template <class F>
auto scan_loss(const F& f, bool reverse) {
  return [f, reverse](const Inputs& p) {
    const auto [carry, ys] = f(p.w, p.h, p.xs, reverse);
    return sum(carry * carry) + sum(sin(ys));
  };
}

void expect_near_inputs(const Inputs& a, const Inputs& b, double tolerance) {
  expect_near(a.w, b.w, tolerance);
  expect_near(a.h, b.h, tolerance);
  expect_near(a.xs, b.xs, tolerance);
}

TEST(Scan, IsTheUnrolledLoop) {
  const Inputs p = inputs();
  for (bool reverse : {false, true}) {
    const Pair expected = unrolled(p.w, p.h, p.xs, reverse);
    const Pair actual =
        in_both_modes([&](const Inputs& q) { return scanned(q.w, q.h, q.xs, reverse); }, p);
    expect_equal(actual.first, expected.first);
    expect_equal(actual.second, expected.second);
  }
}

TEST(Scan, GradientsAreThoseOfTheUnrolledLoop) {
  for (bool reverse : {false, true}) {
    const auto of = [](const auto& f) { return [f](const Inputs& p) { return grad(f)(p); }; };
    const Inputs expected = of(scan_loss(unrolled, reverse))(inputs());
    expect_near_inputs(in_both_modes(of(scan_loss(scanned, reverse)), inputs()), expected, 1e-12);
  }
}

TEST(Scan, ForwardModeAndSecondOrder) {
  const Inputs v{random_tensor({3, 3}, 4), random_tensor({2, 3}, 5), random_tensor({5, 2, 3}, 6)};
  const auto tangent = [&](const auto& f) {
    return [&, f](const Inputs& p) { return jvp(f, p, v).second; };
  };
  expect_near(in_both_modes(tangent(scan_loss(scanned, false)), inputs()),
              tangent(scan_loss(unrolled, false))(inputs()), 1e-12);
  const auto forward_over_reverse = [&](const auto& f) {
    return [&, f](const Inputs& p) { return jvp(grad(f), p, v).second; };
  };
  const Inputs expected = forward_over_reverse(scan_loss(unrolled, true))(inputs());
  expect_near_inputs(in_both_modes(forward_over_reverse(scan_loss(scanned, true)), inputs()),
                     expected, 1e-11);
  const auto reverse_over_reverse = [&](const auto& f) {
    return [&, f](const Inputs& p) {
      return grad([&, f](const Inputs& q) {
        const Inputs g = grad(f)(q);
        return sum(g.w * v.w) + sum(g.h * v.h) + sum(g.xs * v.xs);
      })(p);
    };
  };
  expect_near_inputs(in_both_modes(reverse_over_reverse(scan_loss(scanned, true)), inputs()),
                     expected, 1e-11);
}

TEST(Scan, ThirdOrder) {
  const auto f = [](const Tensor& x) {
    return scan([](const Tensor& c,
                   const std::tuple<>&) { return std::pair(sin(c) * c, std::tuple<>{}); },
                x, std::tuple<>{}, {.length = 3})
        .first;
  };
  const auto plain = [](const Tensor& x) {
    Tensor c = x;
    for (int i = 0; i < 3; ++i) {
      c = sin(c) * c;
    }
    return c;
  };
  EXPECT_NEAR(item(in_both_modes(grad(grad(grad(f))), f64(1.1))),
              item(grad(grad(grad(plain)))(f64(1.1))), 1e-9);
}

TEST(Scan, BatchesWithAnySubsetOfItsInputs) {
  const Inputs p = inputs();
  for (int subset = 1; subset < 8; ++subset) {
    const std::vector<bool> mapped{(subset & 1) != 0, (subset & 2) != 0, (subset & 4) != 0};
    const auto batch = [&](const Tensor& x, bool is) {
      return is ? stack(std::array{x, 2 * x, x - 1}, 0) : x;
    };
    const Tensor w = batch(p.w, mapped[0]);
    const Tensor h = batch(p.h, mapped[1]);
    const Tensor xs = batch(p.xs, mapped[2]);
    const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
      return scanned(a, b, c, true);
    };
    const Pair all = in_both_modes(vmap(f, mapped), w, h, xs);
    for (int64_t i = 0; i < 3; ++i) {
      const auto one = [&](const Tensor& x, bool is) { return is ? select(x, 0, i) : x; };
      const Pair expected = f(one(w, mapped[0]), one(h, mapped[1]), one(xs, mapped[2]));
      expect_near(select(all.first, 0, i), expected.first, 1e-13);
      expect_near(select(all.second, 0, i), expected.second, 1e-13);
    }
  }
}

// Fibonacci numbers, their count and their positions.
struct State {
  Tensor a, b, count;
  template <class V>
  void fields(V& v) {
    v("a", a);
    v("b", b);
    v("count", count);
  }
};

TEST(Scan, CarriesTreesOfMixedTypes) {
  const State init{f64(0), f64(1), scalar(0, Dtype::kI32)};
  const auto f = [](const State& s, const std::tuple<>&) {
    return std::pair(State{s.b, s.a + s.b, s.count + 1}, std::pair(s.a, s.count));
  };
  const auto [last, ys] = in_both_modes(
      [&](const State& s) { return scan(f, s, std::tuple<>{}, {.length = 8}); }, init);
  EXPECT_THAT(to_doubles(ys.first), testing::ElementsAre(0, 1, 1, 2, 3, 5, 8, 13));
  EXPECT_THAT(to_doubles(ys.second), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(item(last.count), 8);
  // d a_8 / d b_0 = F_8, d / d a_0 = F_7.
  const auto final_a = [&](const Pair& ab) {
    return scan(f, State{ab.first, ab.second, scalar(0, Dtype::kI32)}, std::tuple<>{},
                {.length = 8})
        .first.a;
  };
  const Pair g =
      in_both_modes([&](const Pair& ab) { return grad(final_a)(ab); }, Pair(f64(0), f64(1)));
  EXPECT_EQ(item(g.first), 13);
  EXPECT_EQ(item(g.second), 21);
}

TEST(Scan, OfNoStepsAndOfSwappedCarries) {
  const auto f = [](const Pair& c, const Tensor& x) {
    return std::pair(Pair(c.second, c.first + x), x);
  };
  const Pair init{f64({1, 2}), f64({3, 4})};
  const auto [last, ys] =
      in_both_modes([&](const Pair& c, const Tensor& xs) { return scan(f, c, xs); }, init,
                    zeros({Dtype::kF64, {0, 2}}));
  expect_equal(last.first, init.first);
  EXPECT_EQ(ys.shape(), Shape({0, 2}));
  const auto swapped =
      in_both_modes([&](const Pair& c, const Tensor& xs) { return scan(f, c, xs).first; }, init,
                    zeros({Dtype::kF64, {3, 2}}));
  expect_equal(swapped.first, init.second);
  expect_equal(swapped.second, init.first);
}

TEST(Scan, NestsAndRecomputes) {
  const auto inner = [](const Tensor& c, const Tensor& row) {
    return scan([](const Tensor& s, const Tensor& x) { return std::pair(s * cos(x), s); }, c, row);
  };
  const auto f = [&](const Tensor& xs) { return sum(scan(inner, f64(1), xs).second); };
  const auto recomputed = [&](const Tensor& xs) {
    return sum(scan(recompute(inner), f64(1), xs).second);
  };
  const auto plain = [](const Tensor& xs) {
    Tensor c = f64(1);
    Tensor total = f64(0);
    for (const Tensor& row : unstack(xs, 0)) {
      for (const Tensor& x : unstack(row, 0)) {
        total = total + c;
        c = c * cos(x);
      }
    }
    return total;
  };
  const Tensor xs = random_tensor({3, 4}, 7);
  expect_near(in_both_modes(grad(f), xs), grad(plain)(xs), 1e-13);
  expect_near(in_both_modes(grad(recomputed), xs), grad(plain)(xs), 1e-13);
  expect_near(in_both_modes(hessian(f), xs), hessian(plain)(xs), 1e-12);
}

TEST(Scan, SaysWhatDoesNotFit) {
  const auto f = [](const Tensor& c, const Tensor& x) { return std::pair(c + x, x); };
  EXPECT_THAT(error_of([&] {
                scan(f, f64({1}), random_tensor({3, 2}, 1));
              }),
              HasSubstr("scan: the carry is f64[1] before a step and f64[2] after it, at "
                        "tests/core/transform/scan_test.cc:"));
  EXPECT_THAT(
      error_of([&] {
        scan(f, Tensor(), f64({1, 2}));
      }),
      HasSubstr("scan: the carry is an empty tensor, at tests/core/transform/scan_test.cc:"));
  EXPECT_THAT(error_of([&] { scan(f, f64(1), Tensor()); }),
              HasSubstr("scan: xs is an empty tensor, at tests/core/transform/scan_test.cc:"));
  EXPECT_THAT(error_of([&] { scan(f, f64(1), f64(1)); }),
              HasSubstr("scan: xs is f64[], without a leading dim"));
  EXPECT_THAT(error_of([&] {
                scan(f, f64(1), f64({1, 2}), {.length = 3});
              }),
              HasSubstr("the loop has 3 steps"));
  EXPECT_THAT(error_of([] {
                scan([](const Tensor& c, const std::tuple<>&) { return std::pair(c, c); }, f64(1),
                     std::tuple<>{});
              }),
              HasSubstr("the length must be given"));
}

// Newton's method for sqrt(a).
Tensor newton(const Tensor& a) {
  return while_loop([&](const Tensor& x) { return abs(x * x - a) > 1e-12; },
                    [&](const Tensor& x) { return (x + a / x) / 2; }, a);
}

TEST(While, RunsUntilTheConditionFails) {
  for (double a : {2.0, 9.0, 1e4}) {
    EXPECT_NEAR(item(in_both_modes(newton, f64(a))), std::sqrt(a), 1e-10);
  }
  const auto never = [](const Tensor& x) {
    return while_loop([](const Tensor& c) { return c < 0; }, [](const Tensor& c) { return c * 2; },
                      x);
  };
  EXPECT_EQ(item(in_both_modes(never, f64(3))), 3);
}

TEST(While, HasForwardDerivatives) {
  const auto [root, slope] = in_both_modes(
      [](const Tensor& a) { return jvp(newton, a, full({}, 1, Dtype::kF64)); }, f64(2));
  EXPECT_NEAR(item(slope), 0.5 / std::sqrt(2.0), 1e-9);
  EXPECT_THAT(error_of([] { grad(newton)(f64(2)); }),
              HasSubstr("no reverse-mode derivative; use scan"));
}

TEST(While, BatchedElementsStopOnTheirOwn) {
  const auto collatz = [](const Tensor& n) {
    const auto next = [](const Pair& p) {
      const Tensor odd = equal(remainder(p.first, 2), 1);
      return Pair(where(odd, 3 * p.first + 1, p.first / 2), p.second + 1);
    };
    return while_loop([](const Pair& p) { return p.first > 1; }, next, Pair(n, zeros_like(n)))
        .second;
  };
  const Tensor n = vector({1, 2, 7, 27, 97}, Dtype::kI64);
  EXPECT_THAT(to_doubles(in_both_modes(vmap(collatz), n)),
              testing::ElementsAre(0, 1, 16, 111, 118));
}

TEST(While, KeepsConstantsOfBothPrograms) {
  const Tensor limit = f64(100);
  const Tensor factor = f64(3);
  const auto f = [&](const Tensor& x) {
    return while_loop([&](const Tensor& c) { return c * factor < limit; },
                      [&](const Tensor& c) { return c * factor; }, x);
  };
  EXPECT_EQ(item(in_both_modes(f, f64(1))), 81);
}

TEST(While, SaysWhatDoesNotFit) {
  const auto next = [](const Tensor& c) { return c + 1; };
  EXPECT_THAT(error_of([&] {
                while_loop([](const Tensor& c) { return c < 3; }, next, f64({1, 2}));
              }),
              HasSubstr("while_loop: the condition gives bool[2], not bool[], at "
                        "tests/core/transform/scan_test.cc:"));
  EXPECT_THAT(
      error_of([&] { while_loop([](const Tensor& c) { return c < 3; }, next, Tensor()); }),
      HasSubstr("while_loop: the carry is an empty tensor, at tests/core/transform/scan_test.cc:"));
  EXPECT_THAT(error_of([&] {
                while_loop([](const Tensor& c) { return sum(c) < 3; },
                           [](const Tensor& c) { return sum(c); }, f64({1, 2}));
              }),
              HasSubstr("is f64[2] before a step and f64[] after it, at "
                        "tests/core/transform/scan_test.cc:"));
}

}  // namespace
}  // namespace mstrain
