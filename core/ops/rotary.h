// Rotary positions (Su et al. 2021): each head's vector is turned by angles that grow with its position, so that products of
// queries and keys depend on how far they are apart. A composite; the angles come from core/nn/rotary.h.
//
// x[b, t, h, d], d even; cos and sin [b or 1, t, d/2] in the precision of sums (f32, or f64 for f64) -> [b, t, h, d].
// Halves turn, not neighbours: with (a, b) the first and the last d/2 elements of a head, (a cos - b sin, b cos + a sin).
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> rotary_ops();

Tensor rotary(const Arg& x, const Arg& cos, const Arg& sin);

}  // namespace mstrain
