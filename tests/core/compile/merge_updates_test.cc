#include <algorithm>

#include "core/compile/passes.h"
#include "core/exec/execute.h"
#include "core/ops/adamw.h"
#include "core/ops/build.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

struct Updated {
  Shape shape;
  double weight_decay;
};

// The updates of parameters x[0], x[1], …, whose gradients are x[i] squared and clipped together where `clipped`.
Tensors updates(std::span<const Tensor> x, std::span<const Updated> all, bool clipped) {
  Tensor scale = full({}, 0.5);
  if (clipped) {
    Tensor total = full({}, 1);
    for (const Tensor& parameter : x) {
      total = total + sum_squares(parameter);
    }
    scale = rsqrt(total);
  }
  const AdamwScalars scalars{full({}, 0.1), scale, full({}, 0.2), full({}, 0.3)};
  Tensors results;
  for (size_t i = 0; i < x.size(); ++i) {
    const AdamwState state{x[i], x[i] * 0.5, square(x[i]) + 0.1};
    const AdamwState next =
        adamw_update(state, square(x[i]), scalars, {.weight_decay = all[i].weight_decay});
    results.insert(results.end(), {next.parameter, next.m, next.v});
  }
  return results;
}

std::vector<int64_t> decayed_of_updates(const Graph& graph) {
  std::vector<int64_t> decayed;
  const std::vector<bool> live = graph.live();
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (live[id] && graph.node(id).op->name == "adamw") {
      decayed.push_back(graph.node(id).attrs.integer("decayed"));
    }
  }
  return decayed;
}

GraphPtr merged(std::span<const Updated> all, bool clipped, const FuseOptions& options = {}) {
  Types types;
  for (const Updated& it : all) {
    types.push_back({Dtype::kF32, it.shape});
  }
  Tensors captures;
  return merge_updates(
      *trace_program(
          types, [&](std::span<const Tensor> x) { return updates(x, all, clipped); }, &captures),
      options);
}

const std::vector<Updated> kAll = {{{3}, 0}, {{4, 5}, 0.1}, {{}, 0}, {{2, 700}, 0.1}};

TEST(MergeUpdates, MakesOneOfAllThatAreClippedTogether) {
  EXPECT_EQ(decayed_of_updates(*merged(kAll, true)), std::vector<int64_t>{2});
}

TEST(MergeUpdates, KeepsOthersApart) {
  EXPECT_EQ(decayed_of_updates(*merged(kAll, false)).size(), kAll.size());
  EXPECT_EQ(decayed_of_updates(*merged(kAll, true, {.off = {"updates"}})).size(), kAll.size());
  // One rate of decay is merged, the other is not.
  const std::vector<Updated> rates = {{{3}, 0.1}, {{4}, 0.2}, {{5}, 0.1}};
  EXPECT_EQ(decayed_of_updates(*merged(rates, true)), (std::vector<int64_t>{1, 2}));
}

TEST(MergeUpdates, ChangesNoBit) {
  Tensors x;
  for (size_t i = 0; i < kAll.size(); ++i) {
    x.push_back(cast(random_tensor(kAll[i].shape, i), Dtype::kF32));
  }
  const auto f = [](const Tensors& in) { return updates(in, kAll, true); };
  const Tensors apart = jit(f, {.rules_off = {"updates"}})(x);
  const Tensors together = jit(f)(x);
  for (size_t i = 0; i < apart.size(); ++i) {
    expect_equal(together[i], apart[i]);
  }
}

}  // namespace
}  // namespace mstrain
