// Products whose operand or result is exchanged, in pieces of their rows: each beside the exchange of the next or the one before.
#pragma once

#include "core/compile/partition_ways.h"

namespace mstrain::partitioning {

// Along one axis, in `count` pieces. Each function records operations in the innermost trace.
struct Pieces {
  const MeshAxis& axis;
  int64_t count;

  // The first operand of a product becomes `to` in pieces, where it has rows and is not there yet.
  void gather(Held& a, const Placement& to, const Node& product) const;
  // Piece by piece; empty where `a`, the first operand, did not come so, or its pieces are no rows of this product.
  Tensor product_of_gathered(const Node& product, const Held& a, const Placement& as,
                             const Tensor& b) const;
  // The terms of a product become their sum; empty where it has no rows besides those of `to`.
  Tensor summed(const Held& value, const Placement& to) const;
};

}  // namespace mstrain::partitioning
