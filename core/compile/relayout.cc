#include "core/compile/relayout.h"

#include <limits>

#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// Filled up with zeros at the end of `dim`, so that the ranks divide it.
Tensor filled_up(const Tensor& x, int dim, const MeshAxis& axis) {
  const int64_t part = part_of(x.type(), sharded(dim), axis.size).shape[dim];
  Shape high = Shape::filled(x.rank(), 0);
  high[dim] = part * axis.size - x.dim(dim);
  return high[dim] == 0 ? x : pad(x, Shape::filled(x.rank(), 0), high);
}

Tensor cut(const Tensor& x, int dim, int64_t size) {
  return x.dim(dim) == size ? x : slice(x, dim, 0, size);
}

}  // namespace

Tensor relayout(const Tensor& part, const TensorType& whole, const Placement& from,
                const Placement& to, const MeshAxis& axis) {
  if (from == to) {
    return part;
  }
  if (from.partial() && to.replicated()) {
    return all_reduce(part, axis, from.fold);
  }
  if (from.partial() && to.sharded() && from.fold != Reduction::kSum) {
    return layout::own_part(all_reduce(part, axis, from.fold), to.dim, axis);
  }
  if (from.partial() && to.sharded()) {
    const Tensor sum = reduce_scatter(filled_up(part, to.dim, axis), axis, to.dim);
    return cast(sum, whole.dtype);
  }
  if (from.replicated() && to.sharded()) {
    return layout::own_part(part, to.dim, axis);
  }
  if (from.sharded() && to.replicated()) {
    return cut(all_gather(part, axis, from.dim), from.dim, whole.shape[from.dim]);
  }
  if (from.sharded() && to.sharded()) {
    const Tensor moved = all_to_all(filled_up(part, to.dim, axis), axis, to.dim, from.dim);
    return cut(moved, from.dim, whole.shape[from.dim]);
  }
  fail("no collective makes a {} tensor {} along {}", to_string(from), to_string(to), axis.name);
}

double relayout_bytes(const TensorType& whole, const Placement& from, const Placement& to,
                      int64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const double all = others * static_cast<double>(whole.bytes());
  if (from == to || (from.replicated() && to.sharded())) {
    return 0;
  }
  if (to.partial()) {
    return std::numeric_limits<double>::infinity();
  }
  if (from.partial()) {
    return to.replicated() || from.fold != Reduction::kSum ? 2 * all : all;
  }
  return to.replicated() ? all : all / static_cast<double>(ranks);
}

}  // namespace mstrain
