#include "core/backends/cpu/nest.h"

namespace mstrain::cpu {

Nest make_nest(const Shape& shape, std::span<const Shape> strides) {
  Nest nest;
  const size_t operands = strides.size();
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) {
      continue;
    }
    bool merges = nest.rank > 0;
    const auto last = static_cast<size_t>(nest.rank - 1);
    for (size_t i = 0; merges && i < operands; ++i) {
      merges = nest.strides[i][last] == strides[i][d] * shape[d];
    }
    if (merges) {
      nest.dims[last] *= shape[d];
      for (size_t i = 0; i < operands; ++i) {
        nest.strides[i][last] = strides[i][d];
      }
      continue;
    }
    const auto next = static_cast<size_t>(nest.rank++);
    nest.dims[next] = shape[d];
    for (size_t i = 0; i < operands; ++i) {
      nest.strides[i][next] = strides[i][d];
    }
  }
  if (nest.rank == 0) {
    nest.rank = 1;
    nest.dims[0] = 1;
  }
  return nest;
}

}  // namespace mstrain::cpu
