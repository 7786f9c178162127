#include "tests/conformance/layout_parts.h"

#include <gtest/gtest.h>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

// Of no great size, so that sums of terms round little.
Tensor term_like(const Tensor& x, uint64_t seed) {
  return is_floating(x.dtype()) ? random_like(x, seed)
                                : cast(2 * random_like(cast(x, Dtype::kF32), seed), x.dtype());
}

Placement along(const Layout& layout, size_t axis) {
  return axis < layout.size() ? layout[axis] : kReplicated;
}

Mesh without_first(const Mesh& mesh) { return {{mesh.axes.begin() + 1, mesh.axes.end()}}; }
Layout without_first(const Layout& layout) {
  return layout.empty() ? layout : Layout(layout.begin() + 1, layout.end());
}

}  // namespace

Tensors parts_of(const Tensor& x, const Placement& placement, int64_t ranks, uint64_t seed) {
  Tensors parts;
  if (placement.partial()) {
    Tensor rest = x;
    for (int64_t r = 1; r < ranks; ++r) {
      const Tensor term = term_like(x, seed + static_cast<uint64_t>(r));
      parts.push_back(placement.fold == Reduction::kSum   ? term
                      : placement.fold == Reduction::kMax ? x - abs(term)
                                                          : x + abs(term));
      rest = placement.fold == Reduction::kSum ? rest - term : rest;
    }
    parts.push_back(rest);
    return parts;
  }
  if (placement.replicated()) {
    return Tensors(static_cast<size_t>(ranks), x);
  }
  const int dim = placement.dim;
  const int64_t size = part_of(x.type(), placement, ranks).shape[dim];
  Shape high = Shape::filled(x.rank(), 0);
  high[dim] = size * ranks - x.dim(dim);
  const Tensor filled = pad(x, Shape::filled(x.rank(), 0), high, x.dtype() == Dtype::kBool ? 1 : 3);
  for (int64_t r = 0; r < ranks; ++r) {
    parts.push_back(copy(slice(filled, dim, r * size, (r + 1) * size)));
  }
  return parts;
}

Tensor joined(std::span<const Tensor> parts, const Placement& placement, const TensorType& whole) {
  if (placement.sharded()) {
    return slice(concat(parts, placement.dim), placement.dim, 0, whole.shape[placement.dim]);
  }
  Tensor result = parts[0];
  for (size_t r = 1; r < parts.size(); ++r) {
    if (placement.replicated()) {
      EXPECT_EQ(bit_difference(parts[r], parts[0]), "") << "replica of rank " << r;
    } else {
      result = placement.fold == Reduction::kSum   ? result + parts[r]
               : placement.fold == Reduction::kMax ? maximum(result, parts[r])
                                                   : minimum(result, parts[r]);
    }
  }
  return result;
}

// The first axis is the slowest, and the first that tensors are divided along.
Tensors parts_of(const Tensor& x, const Layout& layout, const Mesh& mesh, uint64_t seed) {
  if (mesh.axes.empty()) {
    return {x};
  }
  Tensors all;
  for (const Tensor& part : parts_of(x, along(layout, 0), mesh.axes[0].size, seed)) {
    const Tensors rest = parts_of(part, without_first(layout), without_first(mesh), seed + 17);
    all.insert(all.end(), rest.begin(), rest.end());
  }
  return all;
}

Tensor joined(std::span<const Tensor> parts, const Layout& layout, const Mesh& mesh,
              const TensorType& whole) {
  if (mesh.axes.empty()) {
    return parts[0];
  }
  const Mesh rest = without_first(mesh);
  const int64_t ranks = mesh.axes[0].size;
  const auto each = static_cast<size_t>(rest.ranks());
  Tensors together;
  for (int64_t r = 0; r < ranks; ++r) {
    together.push_back(joined(parts.subspan(static_cast<size_t>(r) * each, each),
                              without_first(layout), rest,
                              part_of(whole, along(layout, 0), ranks)));
  }
  return joined(together, along(layout, 0), whole);
}

}  // namespace mstrain
