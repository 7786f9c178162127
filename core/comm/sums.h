// Reductions over ranks, element by element and in one order: what all communicators have in common.
#pragma once

#include <vector>

#include "core/comm/communicator.h"

namespace mstrain {

// The type in which a sum without an initial value is formed; it is rounded to the type of the elements once, at the end.
constexpr Dtype reduction_dtype(Dtype dtype) {
  return dtype == Dtype::kBF16 || dtype == Dtype::kF16 ? Dtype::kF32 : dtype;
}

// out[i] = ((initial[i] + p_0[i]) + p_1[i]) + …, or the maximum or minimum, of `out.count` elements of each piece, in the
// order of the pieces. Without `initial` (data null) the first piece begins, and out has the pieces' type. With it, the sum
// is formed in its type, which is out's, rounding after every addition. `out` may be `initial`, or a piece of its type.
// Sums of bool are true where any is; NaN beats all numbers.
void reduce_in_order(Reduction reduction, Dtype type, std::span<const void* const> pieces,
                     Elements initial, Elements out);

// What a rank sends of an all_reduce that travels once: a second message costs more than its bytes.
inline constexpr int64_t kLittleToReduce = 32768;
// The pieces of a larger one that each rank adds up: even parts of whole cache lines; what is short is the last ranks'.
std::vector<int64_t> even_pieces(const Elements& all, int64_t ranks);

}  // namespace mstrain
