#include "core/runtime/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/runtime/view.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Shape, CountsElementsAsAProduct) {
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{2, 3, 4}.elements()), 24);
  EXPECT_EQ((Shape{2, 0, 4}.elements()), 0);
}

TEST(Shape, ADimPutInAndTakenOutLeavesTheRest) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.with_inserted(0, 9), (Shape{9, 2, 3, 4}));
  EXPECT_EQ(shape.with_inserted(3, 9), (Shape{2, 3, 4, 9}));
  for (int at = 0; at <= shape.rank(); ++at) {
    EXPECT_EQ(shape.with_inserted(at, 9).without(at), shape) << at;
  }
}

TEST(Shape, MoreDimsThanSupportedAreAnError) {
  Shape full = Shape::filled(kMaxRank, 1);
  EXPECT_THAT([&] { full.push_back(1); }, ThrowsMessage<Error>(HasSubstr("more than 10 dims")));
  EXPECT_THAT([&] { full.with_inserted(0, 1); }, ThrowsMessage<Error>(HasSubstr("dims")));
  const std::vector<int64_t> dims(kMaxRank + 1, 1);
  EXPECT_THAT([&] { Shape{std::span(dims)}; },
              ThrowsMessage<Error>(HasSubstr("a shape of 11 dims; at most 10")));
}

TEST(Shape, StridesOfDenseTensorsAreRowMajor) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_TRUE(is_contiguous({2, 3, 4}, {12, 4, 1}));
  EXPECT_FALSE(is_contiguous({2, 3, 4}, {12, 1, 3}));  // transposed
  EXPECT_FALSE(is_contiguous({2, 3}, {0, 1}));         // a row repeated
  EXPECT_TRUE(is_contiguous({1, 3}, {77, 1}));         // a dim of one is never walked
  EXPECT_TRUE(is_contiguous({0, 3}, {5, 5}));          // and nothing of an empty tensor is
}

TEST(Shape, IsPrintedWithTheType) {
  EXPECT_EQ(to_string(Shape{8, 64}), "[8, 64]");
  EXPECT_EQ(to_string(TensorType{Dtype::kBF16, {}}), "bf16[]");
  EXPECT_EQ((TensorType{Dtype::kI64, {2, 3}}.bytes()), 48);
}

}  // namespace
}  // namespace mstrain
