#include "core/tensor/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/host.h"
#include "core/tensor/tree.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void two_layers(const Params& p) {
  for (int64_t layer = 0; layer < 2; ++layer) {
    (p / "h" / layer).get("weight", {3, 2}, normal_init(0.5));
    (p / "h" / layer).get("bias", {2}, zeros_init(), false);
  }
}

TEST(Params, AreDeclaredWhereTheyAreUsed) {
  const std::vector<ParamSpec> specs = declare_params(two_layers);
  ASSERT_EQ(specs.size(), 4U);
  EXPECT_EQ(specs[0].name, "h.0.weight");
  EXPECT_TRUE(specs[0].decay);
  EXPECT_EQ(specs[3].name, "h.1.bias");
  EXPECT_EQ(specs[3].type, (TensorType{Dtype::kF32, {2}}));
  EXPECT_FALSE(specs[3].decay);
}

TEST(Params, InitialValuesDependOnSeedAndNameAlone) {
  const std::vector<ParamSpec> specs = declare_params(two_layers);
  const Params all = init_params(specs, 7);
  const Params one = init_params(std::span(specs).subspan(2, 1), 7);
  EXPECT_EQ(to_doubles(*one.find("h.1.weight")), to_doubles(*all.find("h.1.weight")));
  EXPECT_NE(to_doubles(*all.find("h.0.weight")), to_doubles(*all.find("h.1.weight")));
  EXPECT_NE(to_doubles(*init_params(specs, 8).find("h.1.weight")),
            to_doubles(*all.find("h.1.weight")));
  EXPECT_THAT(to_doubles(*all.find("h.0.bias")), Each(0));
}

TEST(Params, SayWhatIsMissingAndWhatIsNear) {
  const Params p = init_params(declare_params(two_layers), 7);
  EXPECT_THAT(
      [&] {
        (p / "h" / 0).get("wieght", {3, 2}, zeros_init());
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("h.0.wieght is missing"), HasSubstr("h.0.weight"))));
  EXPECT_THAT(
      [&] {
        (p / "h" / 0).get("weight", {2, 3}, zeros_init());
      },
      ThrowsMessage<Error>(HasSubstr("h.0.weight is [3, 2], the model needs [2, 3]")));
  EXPECT_EQ(p.find("h.2.weight"), nullptr);
}

TEST(Params, AChangedCopyLeavesTheOriginal) {
  Params original;
  original.set("a", scalar(1));
  Params copy = original;
  copy.items()[0].second = scalar(2);
  EXPECT_EQ(item(*original.find("a")), 1);
  EXPECT_EQ(item(*copy.find("a")), 2);
}

struct Inner {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};
struct Outer {
  Params params;
  std::vector<Inner> list;
  std::pair<Tensor, Tensor> two;
  template <class V>
  void fields(V& v) {
    v("params", params), v("list", list), v("two", two);
  }
};

TEST(Tree, LeavesComeInOrderWithTheirPathsAndGoBack) {
  Outer tree{{}, {{scalar(2)}, {scalar(3)}}, {scalar(4), scalar(5)}};
  tree.params.set("h.0.weight", scalar(1));
  std::vector<std::string> paths;
  const Tensors leaves = flatten_tree(tree, &paths);
  EXPECT_THAT(paths, ElementsAre("params.h.0.weight", "list.0.x", "list.1.x", "two.0", "two.1"));
  const Outer again = with_leaves(tree, Tensors(leaves.rbegin(), leaves.rend()));
  EXPECT_EQ(item(*again.params.find("h.0.weight")), 5);
  EXPECT_EQ(item(again.list[0].x), 4);
  EXPECT_EQ(item(again.two.second), 1);
  EXPECT_EQ(item(*tree.params.find("h.0.weight")), 1);
  EXPECT_THAT([&] { with_leaves(tree, std::span(leaves).first(3)); },
              ThrowsMessage<Error>(HasSubstr("a tree of 5 tensors was given 3")));
}

}  // namespace
}  // namespace mstrain
