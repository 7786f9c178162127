#include "core/ir/verify.h"

#include "tests/core/ir/programs.h"

namespace mstrain {
namespace {

const OpDef& op_named(std::string_view name) { return *find_op(name); }

std::string error_of(const Graph& graph, std::string_view after = {}) {
  try {
    verify(graph, after);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Verify, AcceptsRecordedPrograms) {
  EXPECT_EQ(error_of(*sample_program()), "no error");
  Rng rng(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(error_of(*random_program(rng, 30)), "no error");
  }
  EXPECT_EQ(error_of(Graph()), "no error");
}

TEST(Verify, FindsTypesThatTheOperationDoesNotGive) {
  Graph graph;
  const Value x = graph.add_input({Dtype::kF32, {4}});
  graph.add(op_named("neg"), {x}, {}, {{Dtype::kF32, {5}}}, {StepPart::kForward, "h.0"});
  EXPECT_EQ(error_of(graph, "fuse"),
            "after fuse: %1 = neg has f32[5] as result 0, not f32[4], in h.0");
}

TEST(Verify, FindsInputsThatTheOperationDoesNotTake) {
  Graph graph;
  const Value x = graph.add_input({Dtype::kF32, {4}});
  const Value y = graph.add_input({Dtype::kF32, {3}});
  graph.add(op_named("add"), {x, y}, {}, {{Dtype::kF32, {4}}});
  EXPECT_EQ(error_of(graph), "%2 = add does not fit its inputs: shapes differ: [4] and [3]");
}

TEST(Verify, FindsTheWrongNumberOfResults) {
  Graph graph;
  const Value x = graph.add_input({Dtype::kF32, {4}});
  graph.add(op_named("neg"), {x}, {}, {graph.type(x), graph.type(x)});
  EXPECT_EQ(error_of(graph), "%1 = neg has 2 results, not 1");
}

TEST(Verify, FindsUsesBeforeDefinitions) {
  Graph graph;
  graph.add(op_named("neg"), {{3, 0}}, {}, {{Dtype::kF32, {4}}});
  EXPECT_EQ(error_of(graph), "%0 = neg uses %3, which does not precede it");
}

TEST(Verify, FindsResultsThatDoNotExist) {
  Graph graph;
  const Value x = graph.add_input({Dtype::kF32, {4}});
  graph.add(op_named("neg"), {{x.node, 2}}, {}, {{Dtype::kF32, {4}}});
  EXPECT_EQ(error_of(graph), "%1 = neg uses result 2 of %0, which has fewer");
  Graph other;
  other.set_outputs({{0, 0}});
  EXPECT_EQ(error_of(other), "an output is result 0 of %0, which does not exist");
}

TEST(Verify, FindsInputsThatAreNotListed) {
  Graph graph;
  graph.add(kInputOp, {}, {{"index", int64_t{0}}, {"dtype", Dtype::kF32}, {"shape", Shape{2}}},
            {{Dtype::kF32, {2}}});
  EXPECT_EQ(error_of(graph), "%0 = input is not listed as input 0");
}

TEST(Verify, LooksIntoProgramsInAttributes) {
  auto body = std::make_shared<Graph>();
  const Value inner = body->add_input({Dtype::kF32, {4}});
  const NodeId wrong = body->add(op_named("neg"), {inner}, {}, {{Dtype::kF32, {5}}});
  body->set_outputs({{wrong, 0}});
  Graph graph;
  const Value x = graph.add_input({Dtype::kF32, {4}});
  graph.add(op_named("recompute"), {x}, {{"body", GraphPtr(body)}}, {{Dtype::kF32, {5}}});
  EXPECT_EQ(error_of(graph),
            "%1 = recompute has an invalid body: %1 = neg has f32[5] as result 0, not f32[4]");
}

}  // namespace
}  // namespace mstrain
