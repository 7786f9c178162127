#include "core/compile/partition_pieces.h"

#include "core/compile/product_rows.h"
#include "core/compile/relayout.h"
#include "core/ops/build.h"
#include "core/ops/shape.h"

namespace mstrain::partitioning {
namespace {

TensorType with_rows(TensorType whole, int dim, int64_t rows) {
  whole.shape[dim] = rows;
  return whole;
}

}  // namespace

void Pieces::gather(Held& a, const Placement& to, const Node& product) const {
  const auto rows = a.placement.sharded() && to.replicated() && !a.elsewhere.contains(to)
                        ? row_dim(dot_dims(product.attrs), a.part.shape(), a.placement.dim, -1)
                        : std::nullopt;
  if (rows) {
    for (const Tensor& piece : pieces_of(a.part, rows->a, count)) {
      const TensorType whole = with_rows(a.whole, rows->a, piece.dim(rows->a));
      a.gathered.push_back(relayout(piece, whole, a.placement, to, axis));
    }
    a.rows = rows->a;
    a.elsewhere[to] = concat(a.gathered, a.rows);
  }
}

Tensor Pieces::product_of_gathered(const Node& product, const Held& a, const Placement& as,
                                   const Tensor& b) const {
  if (a.gathered.empty() || a.placement == as) {
    return {};
  }
  const auto rows = row_dim(dot_dims(product.attrs), a.whole.shape, a.placement.dim, -1);
  if (!rows || rows->a != a.rows) {
    return {};
  }
  Tensors products;
  for (const Tensor& piece : a.gathered) {
    products.push_back(apply(*product.op, Tensors{piece, b}, product.attrs, product.where)[0]);
  }
  return concat(products, rows->out);
}

Tensor Pieces::summed(const Held& value, const Placement& to) const {
  const auto& [node, operands] = *value.product;
  const auto rows =
      row_dim(dot_dims(node->attrs), operands[0].shape(), -1, to.sharded() ? to.dim : -1);
  if (!rows) {
    return {};
  }
  const PlaceScope place(node->place);
  Tensors sums;
  for (const Tensor& piece : pieces_of(operands[0], rows->a, count)) {
    const Tensor terms = apply(*node->op, Tensors{piece, operands[1]}, node->attrs, node->where)[0];
    const TensorType whole = with_rows(value.whole, rows->out, piece.dim(rows->a));
    sums.push_back(relayout(terms, whole, value.placement, to, axis));
  }
  return concat(sums, rows->out);
}

}  // namespace mstrain::partitioning
