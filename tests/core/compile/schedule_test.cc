#include "core/compile/schedule.h"

#include <algorithm>

#include "core/compile/passes.h"
#include "core/exec/execute.h"
#include "core/transform/accumulate.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

GraphPtr record(const Types& types, const std::function<Tensors(std::span<const Tensor>)>& f) {
  Tensors captures;
  return trace_program(types, f, &captures);
}

// The gradient of a chain of layers with respect to its square matrices.
Params gradients_of(std::span<const Tensor> matrices, const Tensor& batch) {
  Params weights;
  for (size_t i = 0; i < matrices.size(); ++i) {
    weights.set(std::to_string(i), matrices[i]);
  }
  return grad([&](const Params& w) {
    Tensor h = batch;
    for (size_t i = 0; i < matrices.size(); ++i) {
      h = tanh(matmul(h, *w.find(std::to_string(i))));
    }
    return sum(h);
  })(weights);
}

// Layers of square matrices; their gradients are added to running sums at the very end.
Tensors sums_at_the_end(std::span<const Tensor> x, size_t layers) {
  const Params gradients = gradients_of(x.first(layers), x[2 * layers]);
  Tensors result;
  for (size_t i = 0; i < layers; ++i) {
    result.push_back(x[layers + i] + *gradients.find(std::to_string(i)));
  }
  return result;
}

TEST(Schedule, EveryNodeComesOnceAndAfterWhatItReads) {
  constexpr size_t kLayers = 5;
  Types types(2 * kLayers, {Dtype::kF32, {64, 64}});
  types.push_back({Dtype::kF32, {32, 64}});
  const GraphPtr graph =
      record(types, [&](std::span<const Tensor> x) { return sums_at_the_end(x, kLayers); });
  const std::vector<NodeId> order = schedule(*graph, std::vector<bool>(types.size(), true));
  const std::vector<bool> live = graph->live();
  std::vector<bool> done(graph->size(), false);
  for (const Value& input : graph->inputs()) {
    done[input.node] = true;
  }
  for (NodeId id = 0; id < graph->size(); ++id) {
    done[id] = done[id] || graph->node(id).op->kind == OpKind::kSource;
  }
  for (NodeId id : order) {
    EXPECT_FALSE(done[id]) << "node " << id << " comes twice";
    for (const Value& value : graph->node(id).inputs) {
      EXPECT_TRUE(done[value.node]) << "node " << id << " comes before " << value.node;
    }
    done[id] = true;
  }
  for (NodeId id = 0; id < graph->size(); ++id) {
    EXPECT_TRUE(!live[id] || done[id]) << "node " << id << " is missing";
  }
}

// With sums donated, no more than one gradient is there at a time.
TEST(Schedule, AddsGradientsToTheirSumsWhenTheyAreMade) {
  constexpr size_t kLayers = 8;
  const TensorType matrix{Dtype::kF32, {256, 256}};
  Types types(2 * kLayers, matrix);
  types.push_back({Dtype::kF32, {4, 256}});
  const GraphPtr graph =
      record(types, [&](std::span<const Tensor> x) { return sums_at_the_end(x, kLayers); });
  std::vector<bool> donated(types.size(), false);
  std::fill_n(donated.begin() + kLayers, kLayers, true);
  for (const int level : {0, 2}) {
    const auto program = compile(*graph, {.level = level, .donated = donated});
    EXPECT_LT(program->memory().arena, 2 * matrix.bytes()) << "at level " << level;
    EXPECT_EQ(program->memory().outputs, 0);
  }
}

// Micro-batches: beside the sums, the gradients of one layer at a time.
TEST(Schedule, KeepsOneSetOfGradientsInLoops) {
  constexpr int64_t kWidth = 128;
  constexpr size_t kLayers = 6;
  const TensorType matrix{Dtype::kF32, {kWidth, kWidth}};
  Types types(kLayers, matrix);
  types.push_back({Dtype::kF32, {8, kWidth}});
  const GraphPtr graph = record(types, [&](std::span<const Tensor> x) {
    const auto one = [&](const Tensor& batch) { return gradients_of(x.first(kLayers), batch); };
    return flatten_tree(accumulate(4, one)(x[kLayers]));
  });
  const auto program = compile(*graph, {.packed_bytes = 0});
  const int64_t sums = static_cast<int64_t>(kLayers) * matrix.bytes();
  EXPECT_EQ(program->memory().outputs, sums);
  EXPECT_LT(program->memory().arena, sums / 2);
}

}  // namespace
}  // namespace mstrain
