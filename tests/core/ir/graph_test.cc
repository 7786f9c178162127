// Identity of programs: what their hash and their equality look at.
#include "core/ir/text.h"
#include "programs.h"

namespace mstrain {
namespace {

Tensor slope_of(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const Tensor root = mark(x);
  const Tensor y = f(root);
  const Tensor one = full({}, 1);
  return pull_back(std::array{y}, std::array{one}, std::array{root})[0];
}

// A step with a gradient within a gradient, and one through a program that is computed again.
GraphPtr derived_program() {
  const TensorType x{Dtype::kF32, {4}};
  return program_of({x}, [&](std::span<const Tensor> in) {
    const auto f = [](const Tensor& y) { return sum(tanh(y) * y); };
    const auto squares = [&](const Tensor& y) { return sum(square(slope_of(f, y))); };
    const GraphPtr body =
        program_of({x}, [](std::span<const Tensor> y) { return Tensors{exp(y[0])}; });
    const auto again = [&](const Tensor& y) {
      return sum(recompute_program(body, std::array{y})[0]);
    };
    return Tensors{slope_of(squares, in[0]), slope_of(again, in[0])};
  });
}

TEST(Graph, HashesTheSameInEveryProcessWhateverWasBuiltBefore) {
  const GraphPtr first = derived_program();
  const uint64_t hash = first->hash();
  derived_program();
  sample_program();
  const GraphPtr later = derived_program();
  EXPECT_EQ(later->hash(), hash);
  EXPECT_TRUE(*later == *first);
  EXPECT_EQ(to_text(*later), to_text(*first));
  EXPECT_TRUE(*parse_graph(to_text(*first)) == *first);
  EXPECT_EQ(later->hash(), parse_graph(to_text(*first))->hash());
}

TEST(Graph, HashesToWhatAnotherProcessSaid) {
  const GraphPtr graph = parse_graph(
      "graph {\n"
      "  %0 = input() : f32[4, 2]\n"
      "  %1 = mark(%0) : f32[4, 2]\n"
      "  %2 = reduce_sum(%1) {axes=[0]} : f32[2]  @\"loss\"\n"
      "  %3 = exp(%2) : f32[2]  @backward \"loss\"\n"
      "  return %3\n"
      "}\n");
  EXPECT_EQ(graph->hash(), uint64_t{12023740161745429276U});
}

TEST(Graph, KeepsRootsOfDerivativesApart) {
  const GraphPtr graph = program_of({{Dtype::kF32, {4}}}, [](std::span<const Tensor> in) {
    const Tensor a = mark(in[0]);
    const Tensor b = mark(in[0]);
    return Tensors{a, b, exp(in[0]), exp(in[0])};
  });
  EXPECT_FALSE(graph->outputs()[0] == graph->outputs()[1]);
  EXPECT_EQ(graph->outputs()[2], graph->outputs()[3]);
}

GraphPtr doubled_in(StepPart part, std::string_view scope) {
  return program_of({{Dtype::kF32, {4}}}, [&](std::span<const Tensor> in) {
    const PartScope in_part(part);
    const NameScope named(scope);
    return Tensors{in[0] * 2};
  });
}

TEST(Graph, TellsThePartsOfAStepApartAndNoScopes) {
  const GraphPtr forward = doubled_in(StepPart::kForward, "h.0");
  const GraphPtr backward = doubled_in(StepPart::kBackward, "h.0");
  EXPECT_FALSE(*forward == *backward);
  EXPECT_NE(forward->hash(), backward->hash());
  for (const char* scope : {"", "backward", "optimizer", "h.1"}) {
    const GraphPtr other = doubled_in(StepPart::kForward, scope);
    EXPECT_TRUE(*other == *forward) << scope;
    EXPECT_EQ(other->hash(), forward->hash()) << scope;
  }
}

TEST(Graph, PutsDerivativesAndWhatTheyComputeAgainIntoTheBackwardPart) {
  const GraphPtr graph = derived_program();
  int backward = 0;
  for (NodeId id = 0; id < graph->size(); ++id) {
    const Node& node = graph->node(id);
    if (node.op->name == "exp") {
      EXPECT_EQ(node.place.part, StepPart::kBackward) << to_text(*graph);
    }
    backward += node.place.part == StepPart::kBackward ? 1 : 0;
  }
  EXPECT_GT(backward, 10);
}

}  // namespace
}  // namespace mstrain
