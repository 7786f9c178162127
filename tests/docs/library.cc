// What the snippets of docs/library.md take for granted; scripts/check_docs.py puts them here, compiles and runs them.
#include <fmt/core.h>

#include <cmath>

// @includes
// @cpp 1

namespace {

// @cpp 6
// @cpp 10

void expect_near(const Tensor& found, double expected, double within) {
  check(std::abs(item(found) - expected) <= within, "{} instead of {}", item(found), expected);
}

void run() {
  // @cpp 2
  expect_near(corner[{1, 0}], 31, 0);
  {
    // @cpp 3
    expect_near(gram[{0, 1}], 32, 0);
    expect_near(pair[{1, 0, 2}], 6, 0);
    expect_near(places[{1, 0}], 2, 0);
    expect_near(counts[{1, 1}], 1, 0);
  }
  // @cpp 4
  expect_near(sum(square(s)), 91, 1e-3);
  {
    // @cpp 5
    expect_near(slope[0], 90, 1e-3);
    expect_near(by_position[1], 120, 1e-3);
    expect_near(by_weight, 125, 1e-3);
    check(curve.shape() == Shape{2, 2}, "a Hessian of {}", to_string(curve.type()));
  }
  // @cpp 7
  expect_near(line.slope, 3, 1e-3);
  // @cpp 8
  expect_near(line.offset, 1, 1e-4);
  {
    // @cpp 9
    expect_near(total[2], 9, 0);
    expect_near(totals[{0, 2}], 3, 0);
    expect_near(halved[{1, 2}], 0.75, 0);
    expect_near(same[{0, 0}], 2 * (1 - std::pow(std::tanh(1), 2)), 1e-5);
    expect_near(sum(straight_through), 3, 0);
  }
  {
    // @cpp 11
    check(item(objective) < 0.2, "the classifier ends at {}", item(objective));
    // @cpp 12
    check(to_doubles(classify(kept, images)) == to_doubles(classify(params, images)),
          "what was kept classifies otherwise");
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
