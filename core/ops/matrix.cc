#include "core/ops/matrix.h"

#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

// Element (row, column) that diagonal `offset` begins at, and how many it has.
struct DiagonalForm {
  int64_t row, column, length;
  DiagonalForm(int64_t rows, int64_t columns, int64_t offset)
      : row(offset < 0 ? -offset : 0),
        column(offset > 0 ? offset : 0),
        length(std::max<int64_t>(0, std::min(rows - row, columns - column))) {}
};

Types infer_diagonal(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const Shape& x = in[0].shape;
  const int a = normal_axis(attrs.integer("axis1"), x.rank());
  const int b = normal_axis(attrs.integer("axis2"), x.rank());
  if (a == b) {
    throw ShapeError(fmt::format("the diagonal of axis {} and itself", a));
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != a && i != b) {
      shape.push_back(x[i]);
    }
  }
  shape.push_back(DiagonalForm(x[a], x[b], attrs.integer("offset")).length);
  return {{in[0].dtype, shape}};
}

std::optional<Aliased> alias_diagonal(const Attrs& attrs, std::span<const ViewType> in, size_t) {
  const Shape& x = in[0].type.shape;
  const Shape& strides = in[0].strides;
  const auto a = static_cast<int>(attrs.integer("axis1"));
  const auto b = static_cast<int>(attrs.integer("axis2"));
  const DiagonalForm form(x[a], x[b], attrs.integer("offset"));
  Aliased result;
  result.offset = form.length == 0 ? 0 : form.row * strides[a] + form.column * strides[b];
  for (int i = 0; i < x.rank(); ++i) {
    if (i != a && i != b) {
      result.strides.push_back(strides[i]);
    }
  }
  result.strides.push_back(strides[a] + strides[b]);
  return result;
}

// Whether element (…, i, j) of `shape` lies on the diagonal, or where `compare` of the column and it holds.
Tensor compared(const Shape& shape, int64_t offset,
                Tensor (*compare)(const Arg& column, const Arg& row)) {
  const Shape matrix{shape[shape.rank() - 2], shape[shape.rank() - 1]};
  return compare(iota(matrix, 1, Dtype::kI64), iota(matrix, 0, Dtype::kI64) + offset);
}

// [..., d] on the diagonal of zeros [..., rows, columns].
Tensor on_diagonal(const Tensor& x, int64_t rows, int64_t columns, int64_t offset) {
  const DiagonalForm form(rows, columns, offset);
  const int last = x.rank() - 1;
  if (form.length == 0) {
    Shape shape = x.shape();
    shape[last] = rows;
    shape.push_back(columns);
    return zeros({x.dtype(), shape});
  }
  // Dim `last` stands for the columns: each is where its element belongs, whatever the row.
  Shape low = Shape::filled(x.rank(), 0);
  Shape high = low;
  low[last] = form.column;
  high[last] = columns - form.column - form.length;
  const Tensor row = expand_dims(pad(x, low, high), -2);
  Shape shape = row.shape();
  shape[last] = rows;
  return where(compared(shape, offset, equal), broadcast_to(row, shape), 0);
}

Tensors jvp_same(const Application& node, std::span<const Tensor> t) {
  return apply(node.op, t, node.attrs, kHere);
}

Tensors vjp_diagonal(const Application& node, std::span<const Tensor> ct) {
  const Shape& x = node.inputs[0].shape();
  const auto a = static_cast<int>(node.attrs.integer("axis1"));
  const auto b = static_cast<int>(node.attrs.integer("axis2"));
  const Tensor placed = on_diagonal(ct[0], x[a], x[b], node.attrs.integer("offset"));
  // The last two dims go back to where they stood.
  Shape order;
  for (int i = 0, next = 0; i < x.rank(); ++i) {
    order.push_back(i == a ? x.rank() - 2 : i == b ? x.rank() - 1 : next++);
  }
  return {transpose(placed, order)};
}

Tensors batch_diagonal(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                       std::span<const bool>, int64_t) {
  return apply(
      op, in,
      attrs.with("axis1", attrs.integer("axis1") + 1).with("axis2", attrs.integer("axis2") + 1),
      kHere);
}

Cost cost(std::span<const TensorType>, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(out, out, 0);
}

std::vector<Sample> samples(Dtype t) {
  const auto sample = [&](const Shape& shape, int64_t offset, int64_t a, int64_t b) {
    return Sample{{{{t, shape}, -2, 2}}, {{"offset", offset}, {"axis1", a}, {"axis2", b}}};
  };
  return {sample({4, 4}, 0, 0, 1),    sample({3, 5}, 1, 0, 1), sample({2, 5, 3, 2}, -2, 1, 2),
          sample({4, 3, 4}, 0, 2, 0), sample({2, 2}, 5, 0, 1), sample({0, 3}, 0, 0, 1)};
}

// Along dims that are none of the matrices'.
std::vector<Way> layout_diagonal(const LayoutRequest& request) {
  const int rank = request.inputs[0].shape.rank();
  const int a = normal_axis(request.attrs.integer("axis1"), rank);
  const int b = normal_axis(request.attrs.integer("axis2"), rank);
  std::vector<Way> ways = layout::sums(request, 1);
  for (int i = 0, to = 0; i < rank; ++i) {
    if (i != a && i != b) {
      ways.push_back(layout::by_dims(request, {i}, {to++}));
    }
  }
  return ways;
}

constexpr OpDef kDefs[] = {{.name = "diagonal",
                            .kind = OpKind::kMovement,
                            .dtypes = DtypeClass::kAny,
                            .infer = infer_diagonal,
                            .jvp = jvp_same,
                            .vjp = vjp_diagonal,
                            .batch = batch_diagonal,
                            .cost = cost,
                            .layout = layout_diagonal,
                            .samples = samples,
                            .alias = alias_diagonal}};

const Tensor& matrix_of(const Arg& x, std::string_view function) {
  check(x.tensor().rank() >= 2, "{}: {} is no matrix, at {}", function,
        to_string(x.tensor().shape()), to_string(x.where()));
  return x.tensor();
}

}  // namespace

std::span<const OpDef> matrix_ops() { return kDefs; }

Tensor eye(int64_t rows, int64_t columns, Dtype dtype) {
  return cast(compared({rows, columns < 0 ? rows : columns}, 0, equal), dtype);
}

Tensor diagonal(const Arg& x, int64_t offset, int axis1, int axis2) {
  const int a = axis_of(x, axis1, "diagonal");
  const int b = axis_of(x, axis2, "diagonal");
  return apply1(kDefs[0], {x.tensor()},
                {{"offset", offset}, {"axis1", int64_t{a}}, {"axis2", int64_t{b}}}, x.where());
}

Tensor diag(const Arg& x, int64_t offset) {
  check(x.tensor().rank() >= 1, "diag: a scalar is no diagonal, at {}", to_string(x.where()));
  const int64_t n = x.tensor().shape().back() + std::abs(offset);
  return on_diagonal(x.tensor(), n, n, offset);
}

Tensor tril(const Arg& x, int64_t offset) {
  const Tensor& matrix = matrix_of(x, "tril");
  return where(compared(matrix.shape(), offset, less_equal), matrix, 0);
}

Tensor triu(const Arg& x, int64_t offset) {
  const Tensor& matrix = matrix_of(x, "triu");
  return where(compared(matrix.shape(), offset, greater_equal), matrix, 0);
}

Tensor trace(const Arg& x, int64_t offset) {
  matrix_of(x, "trace");
  return sum(diagonal(x, offset), {-1});
}

Tensor outer(const Arg& x, const Arg& y) {
  check(x.tensor().rank() >= 1 && y.tensor().rank() >= 1, "outer: a scalar is no vector, at {}",
        to_string(x.where()));
  return mul({expand_dims(x, -1), x.where()}, expand_dims(y, -2));
}

Tensor norm(const Arg& x, const Shape& axes, bool keep_dims, double order) {
  check(is_floating(x.tensor().dtype()),
        "norm: is not defined for {}, at {}; convert it with cast()", name_of(x.tensor().dtype()),
        to_string(x.where()));
  check(order > 0, "norm: an order of {}, at {}", order, to_string(x.where()));
  const Tensor wide = widened(x.tensor());
  const auto finished = [&](const Tensor& result) { return cast(result, x.tensor().dtype()); };
  if (order == std::numeric_limits<double>::infinity()) {
    return finished(max(abs(wide), axes, keep_dims));
  }
  if (order == 1 || wide.elements() == 0) {
    return finished(sum(abs(wide), axes, keep_dims));
  }
  // In units of the largest magnitude, so that no power overflows; 0 and infinity are their own norms.
  const Tensor largest = stop_gradient(max(abs(wide), axes, true));
  const Tensor plain = logical_and(largest > 0, isfinite(largest));
  const Tensor unit = where(plain, largest, 1);
  const Tensor powers =
      order == 2 ? square(wide / unit)
                 : where(equal(wide, 0), 0, pow(abs(where(equal(wide, 0), 1, wide)) / unit, order));
  const Tensor total = sum(powers, axes, keep_dims);
  const Tensor none = equal(total, 0);
  const Tensor safe = where(none, 1, total);
  const Tensor root = order == 2 ? sqrt(safe) : pow(safe, 1 / order);
  return finished(where(none, 0, root) * reshape(unit, root.shape()));
}

}  // namespace mstrain
