// How ranks share what goes by ids: along the dims that ids do not touch, along those of the ids, or each with a range of the
// rows of the table, as embeddings are shared by vocabulary.
#include "core/ops/index_layout.h"

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain::index_layout {
namespace {

int axis_of(const LayoutRequest& request) {
  return normal_axis(request.attrs.integer("axis"), request.inputs[0].shape.rank());
}

// Dim `dim` of the table among those of what was gathered along `axis`.
int gathered_dim(const LayoutRequest& request, int dim) {
  return dim < axis_of(request) ? dim : dim - 1 + request.inputs[1].shape.rank();
}

// Ids into this rank's `part` of a table of `rows`, with 0 in place of those of other ranks, which are not `inside`. What is
// no id of the table stays what it is, for the kernel to refuse.
struct OwnIds {
  Tensor ids, inside;
};
OwnIds own_ids(const Tensor& ids, int64_t part, int64_t rows, const MeshAxis& axis) {
  const Tensor first = cast(layout::first_of_part(part, axis), ids.dtype());
  const Tensor local = ids - broadcast_to(first, ids.shape());
  const Tensor inside = logical_and(local >= 0, local < static_cast<double>(part));
  const Tensor valid = logical_and(ids >= 0, ids < static_cast<double>(rows));
  const Tensor nobodys = where(valid, zeros_like(ids), ids);
  return {where(inside, local, nobodys), inside};
}

// `inside`, of the dims of ids, for tensors of `shape` in which these begin at `axis`.
Tensor spread(const Tensor& inside, const Shape& shape, int axis) {
  Shape dims = Shape::filled(shape.rank(), 1);
  for (int i = 0; i < inside.rank(); ++i) {
    dims[axis + i] = inside.dim(i);
  }
  return broadcast_to(reshape(inside, dims), shape);
}

void add(std::vector<Way>& ways, std::vector<Way> more) {
  ways.insert(ways.end(), more.begin(), more.end());
}

// (x, ids, updates) -> x: what all scatters have.
std::vector<Way> scatter(const LayoutRequest& request) {
  std::vector<Way> ways = layout::sums(request, 0b101);
  for (int i = 0; i < request.inputs[0].shape.rank(); ++i) {
    if (i != axis_of(request)) {
      ways.push_back(layout::by_dims(request, {i, layout::kWhole, gathered_dim(request, i)}, {i}));
      ways.back().uneven = true;
    }
  }
  return ways;
}

// What fills up uneven parts of ids is none.
std::vector<Way> beside_axis(const LayoutRequest& request) {
  std::vector<Way> ways = layout::beside_axis(request);
  for (Way& way : ways) {
    way.uneven = false;
  }
  return ways;
}

}  // namespace

std::vector<Way> gather(const LayoutRequest& request) {
  const int axis = axis_of(request);
  std::vector<Way> ways = layout::sums(request, 0b01);
  for (int i = 0; i < request.inputs[1].shape.rank(); ++i) {
    ways.push_back(layout::by_dims(request, {layout::kWhole, i}, {axis + i}));
    ways.back().uneven = true;
    const int64_t ids = request.inputs[1].shape[i];
    if (ids % request.axis.size == 0) {
      continue;
    }
    ways.back().program = [axis, i, ids](std::span<const Tensor> in,
                                         const MeshAxis& ranks) -> Tensors {
      return {mstrain::gather(in[0], layout::without_filling(in[1], i, ids, ranks), axis)};
    };
  }
  for (int i = 0; i < request.inputs[0].shape.rank(); ++i) {
    if (i != axis) {
      ways.push_back(layout::by_dims(request, {i, layout::kWhole}, {gathered_dim(request, i)}));
      ways.back().uneven = true;
    }
  }
  if (request.inputs[0].dtype != Dtype::kBool) {
    Way by_rows = layout::by_dims(request, {axis, layout::kWhole}, {layout::kWhole});
    by_rows.outputs[0] = partial();
    by_rows.uneven = true;
    by_rows.program = [axis, rows = request.inputs[0].shape[axis]](
                          std::span<const Tensor> in, const MeshAxis& ranks) -> Tensors {
      const OwnIds own = own_ids(in[1], in[0].dim(axis), rows, ranks);
      const Tensor found = mstrain::gather(in[0], own.ids, axis);
      return {where(spread(own.inside, found.shape(), axis), found, zeros_like(found))};
    };
    ways.push_back(std::move(by_rows));
  }
  return ways;
}

std::vector<Way> scatter_add(const LayoutRequest& request) {
  const int axis = axis_of(request);
  std::vector<Way> ways = scatter(request);
  for (int i = 0; i < request.inputs[1].shape.rank(); ++i) {
    ways.push_back(layout::by_dims(request, {layout::kWhole, i, axis + i}, {layout::kWhole}));
    ways.back().inputs[0] = ways.back().outputs[0] = partial();
    ways.back().uneven = true;
    const int64_t ids = request.inputs[1].shape[i];
    if (ids % request.axis.size == 0) {
      continue;
    }
    ways.back().program = [axis, i, ids](std::span<const Tensor> in,
                                         const MeshAxis& ranks) -> Tensors {
      return {mstrain::scatter_add(in[0], layout::without_filling(in[1], i, ids, ranks),
                                   layout::without_filling(in[2], axis + i, ids, ranks), axis)};
    };
  }
  Way by_rows = layout::by_dims(request, {axis, layout::kWhole, layout::kWhole}, {axis});
  by_rows.uneven = true;
  by_rows.program = [axis, rows = request.inputs[0].shape[axis]](std::span<const Tensor> in,
                                                                 const MeshAxis& ranks) -> Tensors {
    const OwnIds own = own_ids(in[1], in[0].dim(axis), rows, ranks);
    const Tensor inside = spread(own.inside, in[2].shape(), axis);
    return {mstrain::scatter_add(in[0], own.ids, where(inside, in[2], zeros_like(in[2])), axis)};
  };
  ways.push_back(std::move(by_rows));
  return ways;
}

std::vector<Way> scatter_set(const LayoutRequest& request) { return scatter(request); }

std::vector<Way> take_along(const LayoutRequest& request) {
  std::vector<Way> ways = beside_axis(request);
  add(ways, layout::sums(request, 0b01));
  return ways;
}

std::vector<Way> scatter_add_along(const LayoutRequest& request) {
  std::vector<Way> ways = beside_axis(request);
  add(ways, layout::sums(request, 0b101));
  return ways;
}

}  // namespace mstrain::index_layout
