#include "core/ops/index.h"
#include "core/ir/backend.h"

#include <cmath>
#include <limits>

#include "tests/core/ops/values.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Index = OnReference;

const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_F(Index, GatherTakesRowsInTheShapeOfTheIds) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor rows = gather(x, ids({2, 0}));
  EXPECT_THAT(to_doubles(rows), ElementsAre(5, 6, 1, 2));
  const Tensor columns = gather(x, reshape(ids({1, 1, 0, 1}), {2, 2}), 1);
  EXPECT_EQ(columns.shape(), (Shape{3, 2, 2}));
  EXPECT_THAT(to_doubles(columns), ElementsAre(2, 2, 1, 2, 4, 4, 3, 4, 6, 6, 5, 6));
}

TEST_F(Index, ScatterAddSumsRepeatedIdsAndScatterSetKeepsTheLast) {
  const Tensor x = f64({1, 1, 1}, {3});
  const Tensor updates = f64({10, 20, 30}, {3});
  EXPECT_THAT(to_doubles(scatter_add(x, ids({2, 0, 2}), updates)), ElementsAre(21, 1, 41));
  EXPECT_THAT(to_doubles(scatter_set(x, ids({2, 0, 2}), updates)), ElementsAre(20, 1, 30));
  EXPECT_THAT(to_doubles(scatter_set(x, ids({1}), 7)), ElementsAre(1, 7, 1));
}

TEST_F(Index, AddsOfSixteenBitsAreRoundedOnce) {
  // Each 1 alone would be lost beside 256 in bf16.
  const Tensor x = full({1}, 256, Dtype::kBF16);
  const Tensor sum = scatter_add(x, ids({0, 0, 0, 0}), full({4}, 1, Dtype::kBF16));
  EXPECT_THAT(to_doubles(sum), ElementsAre(260));
}

TEST_F(Index, TakeAlongReadsEachPositionsOwnId) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor at = reshape(ids({2, 0}), {2, 1});
  EXPECT_THAT(to_doubles(take_along(x, at)), ElementsAre(3, 4));
  EXPECT_THAT(to_doubles(scatter_add_along(x, at, f64({10, 20}, {2, 1}))),
              ElementsAre(1, 2, 13, 24, 5, 6));
}

TEST_F(Index, SortIsStableAndPutsNanLast) {
  const Tensor x = f64({2, kNan, 1, 2, -1}, {5});
  const std::vector<double> up = to_doubles(sort(x));
  EXPECT_EQ(up[0], -1);
  EXPECT_TRUE(std::isnan(up[4]));
  EXPECT_THAT(to_doubles(argsort(x)), ElementsAre(4, 2, 0, 3, 1));
  EXPECT_THAT(to_doubles(argsort(x, 0, true)), ElementsAre(0, 3, 2, 4, 1));
}

TEST_F(Index, TopkBreaksTiesByPosition) {
  const auto [values, indices] = topk(f64({1, 3, 3, 2, 5, 5, 5, 5}, {2, 4}), 2);
  EXPECT_THAT(to_doubles(values), ElementsAre(3, 3, 5, 5));
  EXPECT_THAT(to_doubles(indices), ElementsAre(1, 2, 0, 1));
}

TEST_F(Index, OneHotIsOneAtTheId) {
  EXPECT_THAT(to_doubles(one_hot(ids({2, 0}), 3)), ElementsAre(0, 0, 1, 1, 0, 0));
}

TEST_F(Index, MistakesNameTheShapes) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_THAT(error_of([&] { gather(x, x); }), HasSubstr("gather: ids are f64, not i32 or i64"));
  EXPECT_THAT(error_of([&] { gather(x, ids({0}), 2); }),
              HasSubstr("gather: axis 2 is outside of [3, 2]"));
  EXPECT_THAT(error_of([&] {
                take_along(x, reshape(ids({0, 0}), {1, 2}), 1);
              }),
              HasSubstr("take_along: ids [1, 2] and tensor [3, 2] differ in more than axis 1"));
  EXPECT_THAT(error_of([&] { topk(x, 3); }), HasSubstr("topk: k = 3 of the last dim of [3, 2]"));
}

// Every backend looks at the ids.
class IdsOutOfRange : public ::testing::TestWithParam<const Backend*> {
 protected:
  KeepsFloatingMode mode_;
};

TEST_P(IdsOutOfRange, AreErrorsThatNameThem) {
  const Context context{.backend = GetParam()};
  const ContextScope scope(context);
  const Tensor x = full({65, 4}, 1);
  const Tensor far = ids({0, 64, 3, 70});
  const Tensor negative = ids({0, -1});
  EXPECT_THAT(error_of([&] { to_doubles(gather(x, far)); }),
              HasSubstr("gather: id 70 at position 3 is outside of [0, 65)"));
  EXPECT_THAT(error_of([&] { to_doubles(gather(x, negative)); }),
              HasSubstr("gather: id -1 at position 1 is outside of [0, 65)"));
  EXPECT_THAT(error_of([&] {
                to_doubles(scatter_add(x, far, full({4, 4}, 1)));
              }),
              HasSubstr("scatter_add: id 70 at position 3 is outside of [0, 65)"));
  EXPECT_THAT(error_of([&] {
                to_doubles(scatter_set(x, far, full({4, 4}, 1)));
              }),
              HasSubstr("scatter_set: id 70 at position 3 is outside of [0, 65)"));
  EXPECT_THAT(error_of([&] {
                to_doubles(take_along(full({4}, 1), ids({1, 4}), 0));
              }),
              HasSubstr("take_along: id 4 at position 1 is outside of [0, 4)"));
  EXPECT_THAT(error_of([&] { to_doubles(one_hot(far, 65)); }),
              HasSubstr("one_hot: id 70 at position 3 is outside of [0, 65)"));
}

INSTANTIATE_TEST_SUITE_P(Backends, IdsOutOfRange,
                         ::testing::Values(backend_named("reference"), backend_named("cpu")),
                         [](const auto& info) {
                           return info.param == backend_named("cpu") ? "Cpu" : "Reference";
                         });

}  // namespace
}  // namespace mstrain
