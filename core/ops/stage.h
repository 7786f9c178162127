// Where the layers of a model begin, for whoever deals layers to ranks (core/compile/cut.h). Everything else takes a point
// for its operand: it moves nothing and costs nothing.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> stage_ops();

// x, which layer `layer` reads and those before it make. Layers count from 0 in the order in which they are computed; what
// follows the last of n, its norm and its head, is layer n. Every tensor that passes from one layer to another has a point
// between them. Its derivative is the point at which the cotangent leaves the layer again.
Tensor stage_point(const Arg& x, int64_t layer);

extern const OpDef& kStagePoint;

// Of an application: the layer, and whether cotangents pass.
struct StagePoint {
  int64_t layer = 0;
  bool backward = false;
};
StagePoint stage_point_of(const Attrs& attrs);

}  // namespace mstrain
