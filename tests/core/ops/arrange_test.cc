// Functions made of operations, against values written by hand, and slices.
#include "core/ops/arrange.h"

#include "core/ops/matrix.h"
#include "core/ops/slicing.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "core/transform/jacobian.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

using Numbers = std::vector<double>;

const Tensor& grid() {  // 0 … 11 as [3, 4]
  static const Tensor x = cast(reshape(iota({12}, 0), {3, 4}), Dtype::kF64);
  return x;
}

TEST(Slicing, ReadsAsInNumPy) {
  EXPECT_EQ(to_doubles(grid()[1]), (Numbers{4, 5, 6, 7}));
  EXPECT_EQ(to_doubles(grid()[-1][0]), (Numbers{8}));
  EXPECT_EQ(to_doubles(grid()[{2, -1}]), (Numbers{11}));
  EXPECT_EQ(to_doubles(grid()[{kAll, 1}]), (Numbers{1, 5, 9}));
  EXPECT_EQ(to_doubles(grid()[{Slice{1}, Slice{-2}}]), (Numbers{6, 7, 10, 11}));
  EXPECT_EQ(to_doubles(grid()[{0, Slice{0, Slice::kEnd, 3}}]), (Numbers{0, 3}));
  EXPECT_EQ((grid()[Slice{1, 1}].shape()), (Shape{0, 4}));
  EXPECT_EQ(grid()[2].buffer().data(), grid().buffer().data()) << "a part shares memory";
  const auto corner = [](const Tensor& x) { return x[{0, 0}] * x[{0, 1}]; };
  EXPECT_EQ(to_doubles(grad(corner)(grid() + 1)[0]), (Numbers{2, 1, 0, 0}));
  EXPECT_EQ(to_doubles(jit([](const Tensor& x) { return x[Slice{1}]; })(grid())[{0, 0}]),
            (Numbers{4}));
}

TEST(Orders, OfAllDimsAreAskedForWithEachOnce) {
  for (const Shape& axes : {Shape{}, Shape{0}, Shape{0, 0}, Shape{1, 2}, Shape{0, 1, 2}}) {
    EXPECT_THAT(error_of([&] { return transpose(grid(), axes); }),
                testing::HasSubstr("not an order of the dims of [3, 4]"))
        << to_string(axes);
  }
  EXPECT_EQ(item(transpose(f64({7}, {}), Shape{})), 7);
}

TEST(Sizes, BeyondWhat64BitsCountAreAnErrorAtTheCallersLine) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const auto expect_error = [](const std::function<Tensor()>& make) {
    EXPECT_THAT(error_of(make), testing::AllOf(testing::HasSubstr("more bytes than 64 bits"),
                                               testing::HasSubstr("arrange_test.cc")));
  };
  const Tensor one = grid()[0][0];
  expect_error([&] { return linspace(0, 1, kHuge); });
  expect_error([&] { return full({kHuge}, 1); });
  expect_error([&] { return full({0, kHuge, 4}, 1); });
  expect_error([&] { return broadcast_to(one, {kHuge, 4}); });
  expect_error([&] {
    return jit([](const Tensor& x) { return broadcast_to(x, {kHuge, 4}); })(one);
  });
}

TEST(Slicing, OutsideOfATensorIsAnErrorAtTheCallersLine) {
  EXPECT_THAT(error_of([] { grid()[3]; }),
              testing::AllOf(testing::HasSubstr("[]: element 3 of dim 0 of [3, 4]"),
                             testing::HasSubstr("arrange_test.cc")));
  EXPECT_THAT(error_of([] {
                grid()[{0, Slice{0, 5}}];
              }),
              testing::HasSubstr("[]: elements 0 to 5 of dim 1 of [3, 4]"));
  EXPECT_THAT(error_of([] {
                grid()[{0, 0, 0}];
              }),
              testing::HasSubstr("[]: 3 indices for f64[3, 4]"));
  EXPECT_THAT(error_of([] { grid()[Slice{2, 0, -1}]; }), testing::HasSubstr("arrange_test.cc"));
}

TEST(Assignment, MakesAnotherTensorAndLeavesCopiesAsTheyWere) {
  Tensor x = f64({1, 2}, {2});
  const Tensor before = x;
  x += 1;
  x *= f64({2, 3}, {2});
  x -= 1;
  x /= 2;
  EXPECT_EQ(to_doubles(x), (Numbers{1.5, 4}));
  EXPECT_EQ(to_doubles(before), (Numbers{1, 2}));
  const auto f = [](const Tensor& y) {
    Tensor total = y;
    for (int i = 0; i < 3; ++i) {
      total *= y;
    }
    return sum(total);
  };
  EXPECT_EQ(to_doubles(grad(f)(f64({2}, {1}))), (Numbers{32}));
}

TEST(Arrange, RollRepeatTileAndMeshgrid) {
  EXPECT_EQ(to_doubles(roll(ids({1, 2, 3, 4}), 1, 0)), (Numbers{4, 1, 2, 3}));
  EXPECT_EQ(to_doubles(roll(ids({1, 2, 3, 4}), -5, -1)), (Numbers{2, 3, 4, 1}));
  EXPECT_EQ(roll(zeros({Dtype::kF32, {0, 2}}), 3, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(to_doubles(repeat(ids({1, 2}), 2, 0)), (Numbers{1, 1, 2, 2}));
  EXPECT_EQ(to_doubles(tile(ids({1, 2}), {2, 2})), (Numbers{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(tile(grid(), {2}).shape(), (Shape{3, 8}));
  EXPECT_EQ(repeat(grid(), 0, -1).shape(), (Shape{3, 0}));
  const Tensors mesh = meshgrid(std::array{ids({1, 2}), ids({3, 4, 5})});
  EXPECT_EQ(to_doubles(mesh[0]), (Numbers{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(to_doubles(mesh[1]), (Numbers{3, 4, 5, 3, 4, 5}));
}

TEST(Arrange, LinspaceHoldsBothEnds) {
  EXPECT_EQ(to_doubles(linspace(0, 1, 5, Dtype::kF64)), (Numbers{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(to_doubles(linspace(3, 5, 1)), (Numbers{3}));
  EXPECT_EQ(linspace(0, 1, 0).shape(), (Shape{0}));
  for (int64_t n = 2; n < 200; ++n) {
    EXPECT_EQ(to_doubles(linspace(0.1, 0.7, n, Dtype::kF64)).back(), 0.7) << n;
  }
}

TEST(Matrix, DiagonalsAndTriangles) {
  EXPECT_EQ(to_doubles(diagonal(grid())), (Numbers{0, 5, 10}));
  EXPECT_EQ(to_doubles(diagonal(grid(), 2)), (Numbers{2, 7}));
  EXPECT_EQ(to_doubles(diagonal(grid(), -1)), (Numbers{4, 9}));
  EXPECT_EQ(to_doubles(diag(f64({1, 2}, {2}), 1)), (Numbers{0, 1, 0, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(to_doubles(diag(f64({1, 2}, {2}), -1)), (Numbers{0, 0, 0, 1, 0, 0, 0, 2, 0}));
  EXPECT_EQ(to_doubles(tril(grid())), (Numbers{0, 0, 0, 0, 4, 5, 0, 0, 8, 9, 10, 0}));
  EXPECT_EQ(to_doubles(triu(grid(), 1)), (Numbers{0, 1, 2, 3, 0, 0, 6, 7, 0, 0, 0, 11}));
  EXPECT_EQ(item(trace(grid())), 15);
  EXPECT_EQ(to_doubles(eye(2, 3)), (Numbers{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(to_doubles(outer(ids({1, 2}), ids({3, 4, 5}))), (Numbers{3, 4, 5, 6, 8, 10}));
  const auto f = [](const Tensor& x) { return trace(x, 1); };
  EXPECT_EQ(to_doubles(grad(f)(grid())), (Numbers{0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(diagonal(zeros({Dtype::kF32, {2, 5, 0}})).shape(), (Shape{2, 0}));
}

TEST(Matrix, NormsNeitherOverflowNorLoseTheirDerivativeAtZero) {
  EXPECT_EQ(item(norm(f64({3, -4}, {2}))), 5);
  EXPECT_EQ(item(norm(f64({3, -4}, {2}), {}, false, 1)), 7);
  EXPECT_EQ(item(norm(f64({3, -4}, {2}), {}, false, kInfinity)), 4);
  EXPECT_NEAR(item(norm(f64({1, -2, 2}, {3}), {}, false, 3)), std::cbrt(17.0), 1e-14);
  EXPECT_DOUBLE_EQ(item(norm(f64({3e200, 4e200}, {2}))), 5e200);
  EXPECT_EQ(item(norm(f64({kInfinity, 1}, {2}))), kInfinity);
  EXPECT_TRUE(std::isnan(item(norm(f64({kNan, 1}, {2})))));
  EXPECT_EQ(item(norm(zeros({Dtype::kF64, {0}}))), 0);
  EXPECT_EQ(norm(grid(), {-1}, true).shape(), (Shape{3, 1}));
  const auto length = [](const Tensor& x) { return norm(x); };
  EXPECT_EQ(to_doubles(grad(length)(f64({0, 0}, {2}))), (Numbers{0, 0}));
  EXPECT_LE(greatest_difference(grad(length)(f64({3, -4}, {2})), f64({0.6, -0.8}, {2})), 1e-15);
  // Of the length of (x, y) at (3, 4): [y², -xy; -xy, x²] / 125.
  const Tensor curve = hessian(length)(f64({3, 4}, {2}));
  EXPECT_LE(greatest_difference(curve, f64({16, -12, -12, 9}, {2, 2}) / 125), 1e-15);
}

TEST(Elementwise, ClipsAndReplacesWhatIsNotFinite) {
  EXPECT_EQ(to_doubles(clip(f64({-3, 0.5, 9}, {3}), -1, 2)), (Numbers{-1, 0.5, 2}));
  EXPECT_EQ(to_doubles(clip(ids({-3, 4}), 0, ids({9, 3}))), (Numbers{0, 3}));
  EXPECT_EQ(to_doubles(nan_to_num(f64({kNan, kInfinity, -kInfinity, 1}, {4}), 7, 8)),
            (Numbers{7, 8, -std::numeric_limits<double>::max(), 1}));
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    const Tensor most = nan_to_num(full({2}, kInfinity, dtype));
    EXPECT_TRUE(static_cast<bool>(all(isfinite(most)))) << name_of(dtype);
  }
}

TEST(Reductions, AnyAllAndCounts) {
  const Tensor x = reshape(ids({0, 1, 2, 0, 0, 0}), {2, 3});
  EXPECT_EQ(to_doubles(any(x, {1})), (Numbers{1, 0}));
  EXPECT_EQ(to_doubles(all(x > -1, {0})), (Numbers{1, 1, 1}));
  EXPECT_EQ(to_doubles(all(x, {1})), (Numbers{0, 0}));
  EXPECT_EQ(item(count_nonzero(x)), 2);
  EXPECT_FALSE(static_cast<bool>(any(zeros({Dtype::kBool, {0}}))));
  EXPECT_TRUE(static_cast<bool>(all(zeros({Dtype::kBool, {0}}))));
}

TEST(Reductions, ProductsOfZerosHaveTheDerivativesThatAreLeft) {
  const auto weighted = [](const Tensor& x) { return sum(cumprod(x, 0) * f64({1, 10, 100}, {3})); };
  // x, x y, x y z
  EXPECT_EQ(to_doubles(grad(weighted)(f64({2, 0, 5}, {3}))), (Numbers{1, 1020, 0}));
  EXPECT_EQ(to_doubles(grad(weighted)(f64({0, 0, 5}, {3}))), (Numbers{1, 0, 0}));
  const Extremum least = cummin(f64({3, 1, kNan, 0}, {4}), 0);
  EXPECT_EQ(to_doubles(least.indices), (Numbers{0, 1, 2, 2}));
}

}  // namespace
}  // namespace mstrain
