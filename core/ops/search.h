// Finding numbers: where they belong, and which there are.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> search_ops();

// For each value the i32 place in the ascending last dim of `sorted` before which it may be inserted: the first such
// place, or the last where `after_equals`. sorted[n] serves all of values[k…]; sorted[b…, n] and values[b…, m] go
// together row by row. NaN comes after all numbers.
Tensor searchsorted(const Arg& sorted, const Arg& values, bool after_equals = false);

// The different elements of x in ascending order, with places for `size` of them, so that the result's shape does not
// depend on values: `count` (i32) places are taken, the others hold `fill` and a count of 0. x = values[inverse] where
// count is at most size; greater elements for which there is no place have the inverse `size`.
struct Unique {
  Tensor values;   // [size]
  Tensor counts;   // i32 [size]: how often each occurs
  Tensor inverse;  // i32, the shape of x
  Tensor count;    // i32 []: different elements of x, even where they are more than size
};
Unique unique(const Arg& x, int64_t size, double fill = 0);

// i32 [bins]: how many elements of x lie in each of `bins` equal parts of [low, high]; others are not counted.
Tensor histogram(const Arg& x, int64_t bins, double low, double high);

}  // namespace mstrain
