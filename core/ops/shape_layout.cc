// How ranks share what moves elements: along the dims that stay whole on the way.
#include <optional>

#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/shape_rules.h"

namespace mstrain::shape_rules {
namespace {

// Whatever moves elements, and adds none but zeros, moves terms of sums alike.
std::vector<Way> with_sums(const LayoutRequest& request, std::vector<Way> ways) {
  const std::vector<Way> more = layout::sums(request, ~uint32_t{0});
  ways.insert(ways.end(), more.begin(), more.end());
  return ways;
}

// From dim `from` of the input to dim `to` of the result.
Way moved(const LayoutRequest& request, int from, int to) {
  return layout::by_dims(request, {from}, {to});
}

// The attribute `name` for a part of dim `dim`.
void localise(Way& way, const LayoutRequest& request, std::string_view name, int dim) {
  way.attrs.set(name, part_of({request.outputs[0].dtype, request.attrs.ints(name)}, sharded(dim),
                              request.axis.size)
                          .shape);
}

// Dims before `dim`, multiplied.
int64_t before(const Shape& shape, int dim) {
  int64_t product = 1;
  for (int i = 0; i < dim; ++i) {
    product *= shape[i];
  }
  return product;
}

// The rank whose part of a dim of `size` elements has all of [start, stop); none where no one has.
std::optional<int64_t> one_owner(int64_t start, int64_t stop, int64_t size, int64_t ranks) {
  const int64_t part = (size + ranks - 1) / ranks;
  if (start < 0 || stop <= start || start / part != (stop - 1) / part) {
    return std::nullopt;
  }
  return start / part;
}

}  // namespace

// Equal parts of a dim are equal parts of another one that begins at the same stride, where both can be cut.
std::vector<Way> layout_reshape(const LayoutRequest& request) {
  const Shape& from = request.inputs[0].shape;
  const Shape& to = request.outputs[0].shape;
  std::vector<Way> ways;
  for (int i = 0; i < from.rank(); ++i) {
    for (int j = 0; j < to.rank(); ++j) {
      const bool cut = from[i] > 1 && to[j] > 1 && before(from, i) == before(to, j);
      const bool divide = from[i] % request.axis.size == 0 && to[j] % request.axis.size == 0;
      if (cut && from.elements() > 0 && (divide || from[i] == to[j])) {
        ways.push_back(moved(request, i, j));
        ways.back().uneven = true;
        localise(ways.back(), request, "shape", j);
      }
    }
  }
  return with_sums(request, std::move(ways));
}

std::vector<Way> layout_transpose(const LayoutRequest& request) {
  std::vector<Way> ways;
  const Shape& axes = request.attrs.ints("axes");
  for (int i = 0; i < axes.rank(); ++i) {
    ways.push_back(moved(request, static_cast<int>(axes[i]), i));
    ways.back().uneven = true;
  }
  return with_sums(request, std::move(ways));
}

std::vector<Way> layout_broadcast(const LayoutRequest& request) {
  std::vector<Way> ways;
  const Shape& from = request.inputs[0].shape;
  const Shape& to = request.outputs[0].shape;
  const int added = to.rank() - from.rank();
  for (int i = 0; i < to.rank(); ++i) {
    const bool repeats = i < added || (from[i - added] == 1 && to[i] != 1);
    ways.push_back(moved(request, repeats ? layout::kWhole : i - added, i));
    ways.back().uneven = true;
    localise(ways.back(), request, "shape", i);
  }
  return with_sums(request, std::move(ways));
}

std::vector<Way> layout_slice(const LayoutRequest& request) {
  std::vector<Way> ways;
  const Shape& x = request.inputs[0].shape;
  const Shape& start = request.attrs.ints("start");
  const Shape& stop = request.attrs.ints("stop");
  for (int i = 0; i < x.rank(); ++i) {
    if (start[i] == 0 && stop[i] == x[i] && request.attrs.ints("step")[i] == 1) {
      ways.push_back(moved(request, i, i));
      ways.back().uneven = true;
      localise(ways.back(), request, "stop", i);
      continue;
    }
    const auto owner = one_owner(start[i], stop[i], x[i], request.axis.size);
    if (owner && request.inputs[0].dtype != Dtype::kBool) {
      ways.push_back(moved(request, i, layout::kWhole));
      ways.back().outputs[0] = partial();
      ways.back().uneven = true;
      ways.back().program = [i, owner = *owner, attrs = request.attrs, &op = request.op](
                                std::span<const Tensor> in, const MeshAxis& axis) -> Tensors {
        const int64_t before = owner * in[0].dim(i);
        Attrs local = attrs;
        for (const char* name : {"start", "stop"}) {
          Shape ints = attrs.ints(name);
          ints[i] -= before;
          local.set(name, ints);
        }
        const Tensor own = apply(op, in, local, SourceLocation::current())[0];
        return {where(equal(axis_index(axis), static_cast<double>(owner)), own, zeros_like(own))};
      };
    }
  }
  return with_sums(request, std::move(ways));
}

std::vector<Way> layout_pad(const LayoutRequest& request) {
  std::vector<Way> ways;
  for (int i = 0; i < request.inputs[0].shape.rank(); ++i) {
    const int64_t low = request.attrs.ints("low")[i];
    const int64_t high = request.attrs.ints("high")[i];
    if (request.attrs.ints("inner")[i] != 0) {
      continue;
    }
    if (low == 0 && high == 0) {
      ways.push_back(moved(request, i, i));
      ways.back().uneven = true;
      continue;
    }
    const int64_t size = request.inputs[0].shape[i];
    const int64_t all = request.outputs[0].shape[i];
    if (const auto owner = one_owner(low, low + size, all, request.axis.size);
        owner && low >= 0 && high >= 0) {
      ways.push_back(moved(request, layout::kWhole, i));
      ways.back().uneven = true;
      const int64_t part = part_of(request.outputs[0], sharded(i), request.axis.size).shape[i];
      Attrs attrs = request.attrs;
      const auto set = [&](const char* name, int64_t value) {
        Shape ints = attrs.ints(name);
        ints[i] = value;
        attrs.set(name, ints);
      };
      set("low", low - *owner * part);
      set("high", (*owner + 1) * part - low - size);
      ways.back().program = [owner = *owner, attrs, value = request.attrs.number("value"),
                             &op = request.op](std::span<const Tensor> in,
                                               const MeshAxis& axis) -> Tensors {
        const Tensor own = apply(op, in, attrs, SourceLocation::current())[0];
        return {where(equal(axis_index(axis), static_cast<double>(owner)), own,
                      filled(own.type(), value))};
      };
    }
  }
  return request.attrs.number("value") == 0 ? with_sums(request, std::move(ways)) : ways;
}

std::vector<Way> layout_flip(const LayoutRequest& request) {
  std::vector<Way> ways;
  const int rank = request.inputs[0].shape.rank();
  for (int i = 0; i < rank; ++i) {
    bool turned = false;
    for (const int64_t axis : request.attrs.ints("axes")) {
      turned = turned || normal_axis(axis, rank) == i;
    }
    if (!turned) {
      ways.push_back(moved(request, i, i));
      ways.back().uneven = true;
    }
  }
  return with_sums(request, std::move(ways));
}

std::vector<Way> layout_copy(const LayoutRequest& request) {
  return with_sums(request, layout::alike(request));
}

std::vector<Way> layout_beside_axis(const LayoutRequest& request) {
  return with_sums(request, layout::beside_axis(request));
}

}  // namespace mstrain::shape_rules
