#include "core/ops/layouts.h"

#include <algorithm>
#include <cmath>

#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"

namespace mstrain::layout {
namespace {

Placement of_dim(int dim) { return dim == kWhole ? kReplicated : sharded(dim); }

std::vector<Way> leading_dims(const LayoutRequest& request, int kept) {
  std::vector<Way> ways;
  for (int dim = 0; dim < request.inputs[0].shape.rank() - kept; ++dim) {
    ways.push_back(request.whole());
    std::fill(ways.back().inputs.begin(), ways.back().inputs.end(), sharded(dim));
    std::fill(ways.back().outputs.begin(), ways.back().outputs.end(), sharded(dim));
  }
  return ways;
}

// Whether finite numbers, as those that fill up parts are, may give some that are not: logarithms, quotients, exponentials.
bool leaves_finite(const ElementwiseOp& row) {
  constexpr double kTried[] = {-1e4, -3, -1, -0.5, 0, 0.5, 1, 3, 1e4};
  const bool computes = row.kind == ElementwiseOp::Kind::kNumbers && row.evaluate != nullptr;
  return computes && std::ranges::any_of(kTried, [&](double x) {
           return std::ranges::any_of(kTried, [&](double y) {
             const double operands[] = {x, y, y};
             return !std::isfinite(row.evaluate(operands));
           });
         });
}

}  // namespace

Way by_dims(const LayoutRequest& request, std::span<const int> inputs,
            std::span<const int> outputs) {
  Way way = request.whole();
  std::transform(inputs.begin(), inputs.end(), way.inputs.begin(), of_dim);
  std::transform(outputs.begin(), outputs.end(), way.outputs.begin(), of_dim);
  return way;
}

std::vector<Way> sums(const LayoutRequest& request, uint32_t linear) {
  Way way = request.whole();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (((linear >> i) & 1U) != 0) {
      way.inputs[i] = partial();
      if (request.inputs[i].dtype == Dtype::kBool) {
        return {};
      }
    }
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    way.outputs[i] = partial();
    if (request.outputs[i].dtype == Dtype::kBool) {
      return {};
    }
  }
  return {way};
}

std::vector<Way> whole(const LayoutRequest&) { return {}; }

std::vector<Way> alike(const LayoutRequest& request) {
  int rank = 0;
  for (const TensorType& type : request.inputs) {
    rank = std::max(rank, type.shape.rank());
  }
  std::vector<Way> ways;
  for (int dim = 0; dim < rank; ++dim) {
    Way way = request.whole();
    const auto share = [&](std::span<const TensorType> types, std::vector<Placement>& placements) {
      for (size_t i = 0; i < types.size(); ++i) {
        placements[i] = dim < types[i].shape.rank() ? sharded(dim) : kReplicated;
      }
    };
    share(request.inputs, way.inputs);
    share(request.outputs, way.outputs);
    way.uneven = true;
    ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<Way> elementwise(const LayoutRequest& request) {
  std::vector<Way> ways = alike(request);
  const ElementwiseOp& row = *elementwise_op(request.op);
  for (Way& way : ways) {
    const int dim = way.outputs[0].dim;
    const int64_t whole = request.outputs[0].shape[dim];
    if (whole % request.axis.size != 0 && is_floating(request.outputs[0].dtype) &&
        leaves_finite(row)) {
      way.program = [dim, whole, attrs = request.attrs, &op = request.op](
                        std::span<const Tensor> parts, const MeshAxis& axis) -> Tensors {
        const Tensors made = apply(op, parts, attrs, SourceLocation::current());
        return {without_filling(made[0], dim, whole, axis)};
      };
    }
  }
  // Integers are rounded when they are divided, and when they are made.
  const bool exact =
      (is_floating(request.inputs[0].dtype) && is_floating(request.outputs[0].dtype)) ||
      (!row.traits.divides && row.kind != ElementwiseOp::Kind::kConversion);
  for (const uint32_t linear : row.traits.linear) {
    if (linear != 0 && exact) {
      const std::vector<Way> more = sums(request, linear);
      ways.insert(ways.end(), more.begin(), more.end());
    }
  }
  return ways;
}

template <int kept>
std::vector<Way> leading(const LayoutRequest& request) {
  return leading_dims(request, kept);
}
template std::vector<Way> leading<0>(const LayoutRequest&);
template std::vector<Way> leading<1>(const LayoutRequest&);
template std::vector<Way> leading<2>(const LayoutRequest&);

std::vector<Way> beside_axis(const LayoutRequest& request) {
  const int rank = request.inputs[0].shape.rank();
  const int axis = normal_axis(request.attrs.integer("axis"), rank);
  std::vector<Way> ways;
  for (int dim = 0; dim < rank; ++dim) {
    if (dim == axis) {
      continue;
    }
    Way way = request.whole();
    way.uneven = true;
    std::fill(way.inputs.begin(), way.inputs.end(), sharded(dim));
    for (size_t i = 0; i < way.outputs.size(); ++i) {
      const bool lost = request.outputs[i].shape.rank() < rank && dim > axis;
      way.outputs[i] = sharded(lost ? dim - 1 : dim);
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<Way> rows(const LayoutRequest& request) {
  const RowWork& work = request.op.rows;
  std::vector<Way> ways = leading_dims(request, 1);
  for (size_t dim = 0; dim < ways.size(); ++dim) {
    Way& way = ways[dim];
    way.uneven = true;
    const int64_t size = request.inputs[0].shape[static_cast<int>(dim)];
    if (work.column_sums != 0 && size % request.axis.size != 0) {
      way.program = [dim = static_cast<int>(dim), whole = size, attrs = request.attrs,
                     &op = request.op](std::span<const Tensor> parts, const MeshAxis& axis) {
        Tensors in(parts.begin(), parts.end());
        in[0] = without_filling(in[0], dim, whole, axis);
        return apply(op, in, attrs, SourceLocation::current());
      };
    }
    for (size_t i = 0; i < way.inputs.size(); ++i) {
      way.inputs[i] = ((work.parameters >> i) & 1U) != 0 ? kReplicated : way.inputs[i];
    }
    for (size_t i = 0; i < way.outputs.size(); ++i) {
      way.outputs[i] = ((work.column_sums >> i) & 1U) != 0 ? partial() : way.outputs[i];
    }
  }
  return ways;
}

Tensor first_of_part(int64_t part, const MeshAxis& axis) {
  return axis_index(axis) * static_cast<double>(part);
}

Tensor own_part(const Tensor& x, int dim, const MeshAxis& axis) {
  const int64_t part = part_of(x.type(), sharded(dim), axis.size).shape[dim];
  Shape low = Shape::filled(x.rank(), 0);
  Shape high = low;
  high[dim] = part * axis.size - x.dim(dim);
  return gather(high[dim] == 0 ? x : pad(x, low, high), iota({part}, 0) + first_of_part(part, axis),
                dim);
}

Tensor without_filling(const Tensor& x, int dim, int64_t whole, const MeshAxis& axis,
                       double instead) {
  if (x.dim(dim) * axis.size == whole) {
    return x;
  }
  const Tensor index =
      iota(x.shape(), dim) + broadcast_to(first_of_part(x.dim(dim), axis), x.shape());
  return where(index < static_cast<double>(whole), x, filled(x.type(), instead));
}

Tensor offset_along(const Tensor& at, int dim, int rank) {
  return pad(reshape(at, {1}), {dim}, {rank - 1 - dim});
}

}  // namespace mstrain::layout
