#include "core/ir/dot.h"

#include <gmock/gmock.h>

#include "tests/core/ir/programs.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;

TEST(Dot, DrawsNodesEdgesAndResults) {
  const GraphPtr graph = program_of({{Dtype::kF32, {2, 3}}}, [](std::span<const Tensor> in) {
    return Tensors{transpose(in[0])};
  });
  const std::string text = to_dot(*graph);
  EXPECT_THAT(text, HasSubstr("n1 [label=\"transpose\\naxes=[1, 0]\", shape=box"));
  EXPECT_THAT(text, HasSubstr("n0 -> n1 [label=\"f32[2, 3]\"];"));
  EXPECT_THAT(text, HasSubstr("n1 -> nresult0 [label=\"f32[3, 2]\"];"));
}

TEST(Dot, DrawsProgramsInsideProgramsAndEscapesNames) {
  const std::string text = to_dot(*sample_program());
  EXPECT_THAT(text, HasSubstr("subgraph cluster_"));
  EXPECT_THAT(text, HasSubstr("body of recompute"));
  EXPECT_THAT(text, HasSubstr("say \\\"x\\\""));
  EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
}

}  // namespace
}  // namespace mstrain
