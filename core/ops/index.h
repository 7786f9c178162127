// Elements chosen by tensors of ids: i32 or i64, each in [0, n) of the dim that it chooses from. An
// id outside is an Error when the operation runs; it names the id and its position.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> index_ops();
std::span<const OpDef> sort_ops();

// Dim `axis` of x, replaced by the dims of ids: result[i…, k…, j…] = x[i…, ids[k…], j…].
Tensor gather(const Arg& x, const Arg& ids, int axis = 0);
// NumPy's name of the same.
inline Tensor take(const Arg& x, const Arg& ids, int axis = 0) { return gather(x, ids, axis); }
// Rows of table[n, d]: [ids…, d].
inline Tensor embedding(const Arg& table, const Arg& ids) { return gather(table, ids, 0); }
// x with updates (of the shape that gather gives, or broadcast to it) added at ids, in ascending
// order of position, so that the result does not depend on threads.
Tensor scatter_add(const Arg& x, const Arg& ids, const Arg& updates, int axis = 0);
// x with updates in place of the elements at ids; of several updates of one place the last one
// stays.
Tensor scatter_set(const Arg& x, const Arg& ids, const Arg& updates, int axis = 0);

// result[…, k, …] = x[…, ids[…, k, …], …]: ids has the rank of x, and its dims but for `axis`.
Tensor take_along(const Arg& x, const Arg& ids, int axis = -1);
// x with updates (shaped like ids) added at the places that take_along would read.
Tensor scatter_add_along(const Arg& x, const Arg& ids, const Arg& updates, int axis = -1);

// [ids…, depth]: 1 at the id, 0 elsewhere.
Tensor one_hot(const Arg& ids, int64_t depth, Dtype dtype = Dtype::kF32);

// Stable; NaN comes last in either order.
Tensor sort(const Arg& x, int axis = -1, bool descending = false);
// i32 positions in the order of sort.
Tensor argsort(const Arg& x, int axis = -1, bool descending = false);

// The k greatest of the last dim in descending order with their i32 positions; ties by position,
// NaN last.
struct TopK {
  Tensor values;
  Tensor indices;
};
TopK topk(const Arg& x, int64_t k);

}  // namespace mstrain
