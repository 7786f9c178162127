// What a layer with a sliding window keeps of keys, or of values: those of the last positions alone, in a ring of
// `slots` [rows, slots, heads, head_dim]. Position p of a row lies in slot p modulo slots; what lies in slots that no position
// has come to yet means nothing.
#pragma once

#include "core/ir/tensor.h"

namespace mstrain {

// Of x[rows, n, heads, head_dim], whose row r holds the positions from first_b[r] (i32, may be negative) on, the last ones
// up to last_b[r].
Tensor ring_of(const Tensor& x_bnhd, const Tensor& first_b, const Tensor& last_b, int64_t slots);

// The ring with x[rows, 1, heads, head_dim] at positions_b in place of the oldest.
Tensor ring_with(const Tensor& ring_bshd, const Tensor& x_b1hd, const Tensor& positions_b);

// bool [rows, slots]: what the ring holds once there are positions 0 … last_b.
Tensor ring_holds(const Tensor& last_b, int64_t slots);

// What the ring holds before position starts_b, the oldest first, and then x[rows, t, heads, head_dim]: row r holds the
// positions from starts_b[r] - slots on, and nothing at those below 0.
Tensor unrolled(const Tensor& ring_bshd, const Tensor& x_bthd, const Tensor& starts_b);

}  // namespace mstrain
