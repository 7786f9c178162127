#include "core/ops/search.h"
#include "core/ir/backend.h"

#include "core/ops/index.h"
#include "core/ops/statistics.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

TEST(Search, PlacesInASortedRowAreBeforeOrAfterEqualNumbers) {
  for (const Backend* backend : {backend_named("cpu"), backend_named("reference")}) {
    const Context context{.backend = backend};
    const ContextScope scope(context);
    const Tensor sorted = f64({1, 2, 2, 2, 5, kNan}, {6});
    const Tensor values = f64({0, 1, 2, 3, 6, kNan}, {2, 3});
    EXPECT_EQ(to_vector<int32_t>(searchsorted(sorted, values)),
              (std::vector<int32_t>{0, 0, 1, 4, 5, 5}));
    EXPECT_EQ(to_vector<int32_t>(searchsorted(sorted, values, true)),
              (std::vector<int32_t>{0, 1, 4, 4, 5, 6}));
    const Tensor rows = f64({1, 2, 3, 10, 20, 30}, {2, 3});
    EXPECT_EQ(to_vector<int32_t>(searchsorted(rows, f64({2.5, 2.5}, {2, 1}))),
              (std::vector<int32_t>{2, 0}));
  }
}

TEST(Search, UniqueElementsComeWithCountsAndTheWayBack) {
  const Tensor x = reshape(ids({3, 1, 3, 7, 1, 3}), {2, 3});
  const auto f = [](const Tensor& y) {
    const Unique u = unique(y, 5, -1);
    return std::tuple(u.values, u.counts, u.inverse, u.count);
  };
  const auto [values, counts, inverse, count] = jit(f)(x);
  EXPECT_EQ(to_doubles(values), (std::vector<double>{1, 3, 7, -1, -1}));
  EXPECT_EQ(to_doubles(counts), (std::vector<double>{2, 3, 1, 0, 0}));
  EXPECT_EQ(to_doubles(inverse), (std::vector<double>{1, 0, 1, 2, 0, 1}));
  EXPECT_EQ(item(count), 3);
  EXPECT_EQ(to_doubles(gather(values, inverse)), to_doubles(x));
}

TEST(Search, UniqueWithTooFewPlacesKeepsTheLeastAndSaysHowManyThereAre) {
  const Unique u = unique(ids({9, 4, 4, 6}), 2);
  EXPECT_EQ(to_doubles(u.values), (std::vector<double>{4, 6}));
  EXPECT_EQ(to_doubles(u.counts), (std::vector<double>{2, 1}));
  EXPECT_EQ(to_doubles(u.inverse), (std::vector<double>{2, 0, 0, 1}));
  EXPECT_EQ(item(u.count), 3);
  const Unique none = unique(zeros({Dtype::kF32, {0}}), 2, 8);
  EXPECT_EQ(to_doubles(none.values), (std::vector<double>{8, 8}));
  EXPECT_EQ(item(none.count), 0);
}

TEST(Search, HistogramsCountTheEndsAndNothingOutside) {
  EXPECT_EQ(to_doubles(histogram(f64({-1, 0, 0.4, 1, 1.9, 2, 2.1, kNan}, {8}), 2, 0, 2)),
            (std::vector<double>{2, 3}));
}

TEST(Search, QuantilesLieBetweenElementsAndPassTheDerivativeToThem) {
  const Tensor x = f64({4, 1, 3, 2, 10, 30, 20, 40}, {2, 4});
  EXPECT_EQ(to_doubles(median(x)), (std::vector<double>{2.5, 25}));
  EXPECT_EQ(to_doubles(quantile(x, 0)), (std::vector<double>{1, 10}));
  EXPECT_EQ(to_doubles(quantile(x, 1)), (std::vector<double>{4, 40}));
  EXPECT_EQ(quantile(x, 0.3, 0, true).shape(), (Shape{1, 4}));
  const auto middle = [](const Tensor& y) { return sum(median(y)); };
  EXPECT_EQ(to_doubles(grad(middle)(x)), (std::vector<double>{0, 0, 0.5, 0.5, 0, 0.5, 0.5, 0}));
  EXPECT_TRUE(std::isnan(item(median(f64({1, kNan, 2}, {3})))));
  EXPECT_THAT(error_of([&] { quantile(x, 1.5); }), testing::HasSubstr("quantile: a share of 1.5"));
}

}  // namespace
}  // namespace mstrain
