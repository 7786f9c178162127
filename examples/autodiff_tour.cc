// Functional derivatives on one page. Every result is printed and compared with what calculus says; the program ends
// with status 1 where one is wrong.
#include <fmt/core.h>

#include <cmath>

#include "core/mstrain.h"

using namespace mstrain;

namespace {

bool all_right = true;

void show(const char* what, const Tensor& found, const std::vector<double>& expected) {
  const std::vector<double> values = to_doubles(found);
  bool right = values.size() == expected.size();
  for (size_t i = 0; right && i < values.size(); ++i) {
    right = std::abs(values[i] - expected[i]) <= 1e-12 * std::max(1.0, std::abs(expected[i]));
  }
  all_right = all_right && right;
  fmt::print("{:<46} {}{}\n", what, to_text(found), right ? "" : "   <- WRONG");
}

Tensor f64(std::initializer_list<double> values) { return vector(values, Dtype::kF64); }

// Anything with fields() can be differentiated: the gradient is a Line, too.
struct Line {
  Tensor slope, offset;
  template <class V>
  void fields(V& v) {
    v("slope", slope);
    v("offset", offset);
  }
};

}  // namespace

int main() {
  const Tensor two = scalar(2, Dtype::kF64);

  // A function is plain C++. grad() makes a function of it, of which grad() makes the next.
  const auto cube = [](const Tensor& x) { return x * x * x; };
  show("x^3 at 2", cube(two), {8});
  show("  first derivative", grad(cube)(two), {12});
  show("  second derivative", grad(grad(cube))(two), {12});
  show("  third derivative", grad(grad(grad(cube)))(two), {6});

  // In eager mode the function runs on values, so that it may branch on them.
  const auto branching = [](const Tensor& x) { return x > 0 ? sin(x) : -x; };
  show("x > 0 ? sin x : -x, derivative at 2", grad(branching)(two), {std::cos(2.0)});
  show("  and at -2", grad(branching)(-two), {-1});

  // Structs of tensors go in and come out.
  const auto loss = [](const Line& line, const Tensor& x, const Tensor& y) {
    return sum(square(line.slope * x + line.offset - y));
  };
  const Line line{scalar(1, Dtype::kF64), scalar(0, Dtype::kF64)};
  const Tensor x = f64({1, 2, 3});
  const Tensor y = f64({2, 4, 7});
  const auto [value, gradient] = value_and_grad(loss)(line, x, y);
  show("sum of (slope x + offset - y)^2", value, {1 + 4 + 16});
  show("  d / d slope", gradient.slope, {-2 * (1 + 4 + 12)});
  show("  d / d offset", gradient.offset, {-2 * (1 + 2 + 4)});

  // Jacobians, and the Hessian of a scalar.
  const auto polar = [](const Tensor& p) {
    const Tensor xy = f64({1, 0}) * cos(p) + f64({0, 1}) * sin(p);  // one element each
    return xy * f64({3, 3});
  };
  const Tensor angles = f64({0.5, 1.5});
  show("Jacobian of 3 (cos a, sin b)", jacobian(polar)(angles),
       {-3 * std::sin(0.5), 0, 0, 3 * std::cos(1.5)});
  const auto energy = [](const Tensor& v) {
    return prod(v) + sum(square(v));
  };  // abc + a² + b² + c²
  const Tensor v = f64({1, 2, 3});
  show("Hessian of abc + a^2 + b^2 + c^2", hessian(energy)(v), {2, 3, 2, 3, 2, 1, 2, 1, 2});

  // A Hessian times a vector never needs the Hessian: forward mode over reverse mode.
  const Tensor direction = f64({1, 0, -1});
  show("  times (1, 0, -1)", jvp(grad(energy), v, direction).second, {0, 2, 0});

  // Gradients of each sample on its own: vmap makes a batched function of the gradient of one.
  const auto sample_loss = [](const Tensor& w, const Tensor& xs, const Tensor& target) {
    return square(sum(w * xs) - target);
  };
  const Tensor w = f64({1, -1});
  const Tensor samples = reshape(f64({1, 2, 3, 4, 5, 5}), {3, 2});
  const auto each = vmap(grad(sample_loss), {false, true, true});
  show("per-sample gradients", each(w, samples, f64({0, 0, 1})), {-2, -4, -6, -8, -10, -10});

  // jit records and compiles any of these once; the numbers are the same.
  const auto compiled = jit(each);
  show("  compiled", compiled(w, samples, f64({0, 0, 1})), {-2, -4, -6, -8, -10, -10});

  fmt::print("{}\n", all_right ? "all as calculus says" : "some are wrong");
  return all_right ? 0 : 1;
}
