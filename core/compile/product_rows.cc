#include "core/compile/product_rows.h"

#include <algorithm>

#include "core/ops/shape.h"

namespace mstrain {

std::optional<RowDim> row_dim(const DotDims& dims, const Shape& a, int not_a, int not_out) {
  int i = 0;
  while (i < a.rank() && (a[i] == 1 || i == not_a)) {
    ++i;
  }
  if (i < a.rank()) {
    const char letter = dims.a[static_cast<size_t>(i)];
    const size_t out = dims.out.find(letter);
    if (out != std::string::npos && static_cast<int>(out) != not_out &&
        dims.b.find(letter) == std::string::npos) {
      return RowDim{i, static_cast<int>(out)};
    }
  }
  return std::nullopt;
}

Tensors pieces_of(const Tensor& x, int dim, int64_t count) {
  const int64_t rows = x.dim(dim);
  const int64_t pieces = std::min(count, rows);
  Tensors out;
  for (int64_t i = 0; i < pieces; ++i) {
    out.push_back(slice(x, dim, rows * i / pieces, rows * (i + 1) / pieces));
  }
  return out;
}

}  // namespace mstrain
