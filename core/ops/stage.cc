// stage_point{layer, backward}
#include "core/ops/stage.h"

#include "core/ops/alias.h"
#include "core/ops/build.h"
#include "core/ops/control.h"
#include "core/ops/layouts.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  attrs.flag("backward");
  if (attrs.integer("layer") < 0) {
    throw ShapeError(fmt::format("layer {} does not exist", attrs.integer("layer")),
                     "layers count from 0");
  }
  return {in[0]};
}

Tensors jvp(const Application& node, std::span<const Tensor> tangents) {
  return apply(node.op, tangents, node.attrs, kHere);
}

// What a layer's backward pass is given is there before anything reads it, as where another rank sends it: sums over rows that
// are fused with what they add up have other bits than sums of what is there.
Tensors vjp(const Application& node, std::span<const Tensor> cotangents) {
  return apply(node.op, barrier(cotangents), node.attrs.with("backward", true), kHere);
}

std::vector<Way> share(const LayoutRequest& request) {
  std::vector<Way> ways = layout::alike(request);
  const std::vector<Way> sums = layout::sums(request, 1);
  ways.insert(ways.end(), sums.begin(), sums.end());
  return ways;
}

Cost cost(std::span<const TensorType>, std::span<const TensorType>, const Attrs&) { return {}; }

std::vector<Sample> samples(Dtype t) {
  return {{{{{t, {3, 5}}}}, {{"layer", int64_t{2}}, {"backward", false}}},
          {{{{t, {0, 2}}}}, {{"layer", int64_t{0}}, {"backward", true}}}};
}

constexpr OpDef kDefs[] = {{.name = "stage_point",
                            .kind = OpKind::kMovement,
                            .dtypes = DtypeClass::kAny,
                            .infer = infer,
                            .jvp = jvp,
                            .vjp = vjp,
                            .batch = batch_leading,
                            .cost = cost,
                            .layout = share,
                            .samples = samples,
                            .precision = Precision::kAny,
                            .alias = alias::each,
                            .order = Order::kKept}};

}  // namespace

const OpDef& kStagePoint = kDefs[0];

std::span<const OpDef> stage_ops() { return kDefs; }

Tensor stage_point(const Arg& x, int64_t layer) {
  return apply(kStagePoint, std::span(&x.tensor(), 1), {{"layer", layer}, {"backward", false}},
               x.where())[0];
}

StagePoint stage_point_of(const Attrs& attrs) {
  return {attrs.integer("layer"), attrs.flag("backward")};
}

}  // namespace mstrain
