#include "core/transform/clip.h"

#include <limits>

#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Trees = std::vector<Tensor>;

TEST(Clip, ByValue) {
  const auto f = [](const Trees& t) { return clip_by_value(t, -1, 0.5); };
  const Trees result = in_both_modes(f, Trees{f64({-3, -1, 0.2, 7}), f64({kNan, -kInf, kInf})});
  EXPECT_THAT(to_doubles(result[0]), ElementsAre(-1, -1, 0.2, 0.5));
  EXPECT_THAT(to_doubles(result[1]), ElementsAre(testing::IsNan(), -1, 0.5));
}

TEST(Clip, GlobalNormIsOverAllTensors) {
  const auto f = [](const Trees& t) { return global_norm(t); };
  EXPECT_EQ(item(in_both_modes(f, Trees{f64({3}), f64({0, 4})})), 5);
  EXPECT_EQ(global_norm(Trees{vector({3, 4}, Dtype::kBF16)}).dtype(), Dtype::kF32);
  EXPECT_EQ(item(global_norm(Trees{vector({3, 0}, Dtype::kF32), f64(4)})), 5);
}

TEST(Clip, LongGradientsGetTheLimitAndShortOnesStay) {
  const auto f = [](const Trees& t) { return clip_by_global_norm(t, 1.0); };
  const Trees longer = in_both_modes(f, Trees{f64({3}), f64({0, 4})});
  EXPECT_DOUBLE_EQ(item(longer[0]), 0.6);
  EXPECT_DOUBLE_EQ(to_doubles(longer[1])[1], 0.8);
  const Trees shorter{f64({0.3}), f64({0, 0.4})};
  const Trees same = in_both_modes(f, shorter);
  expect_equal(same[0], shorter[0]);
  expect_equal(same[1], shorter[1]);
  const Trees none = in_both_modes(f, Trees{f64({0, 0})});
  EXPECT_THAT(to_doubles(none[0]), ElementsAre(0, 0));
}

TEST(Clip, ByNormTreatsEveryTensorOnItsOwn) {
  const auto f = [](const Trees& t) { return clip_by_norm(t, 2); };
  const Trees result = in_both_modes(f, Trees{f64({3, 4}), f64({0.5, 1})});
  EXPECT_THAT(to_doubles(result[0]), testing::Pointwise(testing::DoubleNear(1e-15), {1.2, 1.6}));
  EXPECT_THAT(to_doubles(result[1]), ElementsAre(0.5, 1));
}

TEST(Clip, ANormThatIsNotFiniteChangesNothing) {
  const auto f = [](const Trees& t) {
    return std::pair(clip_by_global_norm(t, 1), global_norm(t));
  };
  for (double bad : {kInf, -kInf, kNan}) {
    const Trees given{f64({bad, 2}), f64({-3})};
    const auto [same, norm] = in_both_modes(f, given);
    expect_equal(same[0], given[0]);
    expect_equal(same[1], given[1]);
    EXPECT_FALSE(std::isfinite(item(norm)));
  }
}

TEST(Clip, ShortFloatsAreScaledInFull) {
  const Tensor g = vector({300, 400}, Dtype::kBF16);
  const Tensor clipped = clip_by_global_norm(Trees{g}, 1)[0];
  EXPECT_EQ(clipped.dtype(), Dtype::kBF16);
  EXPECT_EQ(to_doubles(clipped)[0], static_cast<float>(BFloat16(0.6F)));
  EXPECT_EQ(to_doubles(clipped)[1], static_cast<float>(BFloat16(0.8F)));
}

TEST(Clip, ParamsStayParams) {
  Params params;
  params.set("h.0.weight", f64({3, 4}));
  params.set("h.0.bias", f64({0, 12}));
  const Params clipped = clip_by_global_norm(params, 6.5);
  EXPECT_EQ(clipped.name(1), "h.0.bias");
  EXPECT_THAT(to_doubles(clipped.tensor(0)), ElementsAre(1.5, 2));
  EXPECT_THAT(to_doubles(clipped.tensor(1)), ElementsAre(0, 6));
  EXPECT_THAT(to_doubles(params.tensor(1)), ElementsAre(0, 12));
}

TEST(Clip, HasDerivativesAlsoAtZero) {
  const auto f = [](const Tensor& x) {
    return sum(clip_by_global_norm(Trees{x}, 1)[0] * f64({1, 2}));
  };
  EXPECT_THAT(to_doubles(in_both_modes(grad(f), f64({0, 0}))), ElementsAre(1, 2));
  EXPECT_THAT(to_doubles(in_both_modes(grad(f), f64({0.1, 0.2}))), ElementsAre(1, 2));
  // x / |x| at (3, 4): (w - n (n w)) / |x|.
  const std::vector<double> g = to_doubles(in_both_modes(grad(f), f64({3, 4})));
  EXPECT_NEAR(g[0], (1 - 0.6 * 2.2) / 5, 1e-15);
  EXPECT_NEAR(g[1], (2 - 0.8 * 2.2) / 5, 1e-15);
  const auto norm = [](const Tensor& x) { return global_norm(Trees{x}); };
  EXPECT_THAT(to_doubles(in_both_modes(grad(norm), f64({0, 0}))), ElementsAre(0, 0));
  expect_near(in_both_modes(grad(norm), f64({3, 4})), f64({0.6, 0.8}), 1e-15);
}

TEST(Clip, ChecksItsArguments) {
  EXPECT_THAT(error_of([] { clip_by_global_norm(Trees{f64({1})}, 0); }),
              HasSubstr("a norm of 0, which is not positive"));
  EXPECT_THAT(error_of([] { clip_by_norm(Trees{f64({1})}, kNan); }), HasSubstr("not positive"));
  EXPECT_THAT(error_of([] { clip_by_value(Trees{f64({1})}, 2, 1); }), HasSubstr("[2, 1] is empty"));
  EXPECT_THAT(error_of([] { global_norm(Trees{vector({1}, Dtype::kI32)}); }),
              HasSubstr("i32[1], not floating-point"));
}

}  // namespace
}  // namespace mstrain
