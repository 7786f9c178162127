// What the snippets of docs/library.md take for granted; scripts/check_docs.py puts them here, compiles and runs them.
#include <fmt/core.h>

#include <cmath>

// @includes
// @cpp 1

namespace {

// @cpp 5
// @cpp 8

void expect_near(const Tensor& found, double expected, double within) {
  check(std::abs(item(found) - expected) <= within, "{} instead of {}", item(found), expected);
}

void run() {
  // @cpp 2
  expect_near(corner[{1, 0}], 31, 0);
  // @cpp 3
  expect_near(sum(square(s)), 91, 1e-3);
  {
    // @cpp 4
    expect_near(slope[0], 90, 1e-3);
    expect_near(by_position[1], 120, 1e-3);
    expect_near(by_weight, 125, 1e-3);
    check(curve.shape() == Shape{2, 2}, "a Hessian of {}", to_string(curve.type()));
  }
  // @cpp 6
  expect_near(line.slope, 3, 1e-3);
  // @cpp 7
  expect_near(line.offset, 1, 1e-4);
  {
    // @cpp 9
    check(item(objective) < 0.2, "the classifier ends at {}", item(objective));
  }
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
