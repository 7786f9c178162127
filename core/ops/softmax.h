// Softmax and its logarithm. Composites over the last axis; the user's functions move another axis
// there. A row of -inf alone gives NaN.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> softmax_ops();

Tensor softmax(const Arg& x, int axis = -1);
Tensor log_softmax(const Arg& x, int axis = -1);

}  // namespace mstrain
