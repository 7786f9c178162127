#include "core/tensor/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/tensor/jit.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Host, EveryDtypeComesBackAsItWent) {
  for (const Dtype dtype : kAllDtypes) {
    const Tensor x = vector({0, 1, 1, 0}, dtype);
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_THAT(to_doubles(x), ElementsAre(0, 1, 1, 0)) << name_of(dtype);
  }
  const std::vector<int64_t> wide{INT64_MIN, INT64_MAX};  // no double holds these
  EXPECT_EQ(to_vector<int64_t>(tensor<int64_t>(wide, {2})), wide);
}

TEST(Host, ReadsViewsInRowMajorOrder) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const Tensor x = transpose(tensor<float>(values, {2, 3}), {1, 0});
  EXPECT_THAT(to_vector<float>(x), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_TRUE(dense(x).view().contiguous());
  EXPECT_THAT(to_vector<float>(dense(x)), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Host, RefusesWhatDoesNotFit) {
  const std::vector<float> values{1, 2, 3};
  EXPECT_THAT(
      [&] {
        tensor<float>(values, {2, 2});
      },
      ThrowsMessage<Error>(HasSubstr("3 values for shape [2, 2]")));
  EXPECT_THAT([&] { to_vector<double>(vector({1})); },
              ThrowsMessage<Error>(AllOf(HasSubstr("f32, not f64"), HasSubstr("host_test.cc"))));
  EXPECT_THAT(
      [&] {
        item(vector({1, 2}));
      },
      ThrowsMessage<Error>(HasSubstr("f32[2] has 2 elements")));
  EXPECT_THAT([&] { to_doubles(Tensor()); }, ThrowsMessage<Error>(HasSubstr("empty tensor")));
}

TEST(Host, InsideJitThereIsNoValueToRead) {
  auto f = jit([](const Tensor& x) {
    to_doubles(x);
    return x;
  });
  EXPECT_THAT([&] { f(scalar(1)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("f32[]"), HasSubstr("host_test.cc"),
                                         HasSubstr("return the tensor and read it outside"))));
}

TEST(Host, TextIsCutInTheMiddle) {
  EXPECT_EQ(to_text(tensor<int32_t>(std::vector<int32_t>{1, 2, 3, 4}, {2, 2})),
            "i32[2, 2] [[1, 2], [3, 4]]");
  EXPECT_EQ(to_text(scalar(0.5)), "f32[] 0.5");
  EXPECT_EQ(to_text(Tensor()), "(empty)");
  EXPECT_EQ(to_text(scalar(9007199254740992.0, Dtype::kI64) * 3 + 1), "i64[] 27021597764222977");
  EXPECT_EQ(to_text(scalar(-1234567, Dtype::kI32)), "i32[] -1234567");
  EXPECT_EQ(to_text(scalar(1, Dtype::kBool)), "bool[] 1");
  std::vector<int64_t> many(100);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i] = static_cast<int64_t>(i);
  }
  EXPECT_EQ(to_text(tensor<int64_t>(many, {100})), "i64[100] [0, 1, 2, 3, …, 96, 97, 98, 99]");
  EXPECT_THAT(to_text(tensor<int64_t>(many, {50, 2})), HasSubstr("[6, 7], …, [92, 93]"));
}

}  // namespace
}  // namespace mstrain
