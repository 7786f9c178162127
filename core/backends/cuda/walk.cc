#include "core/backends/cuda/walk.h"

#include <fmt/format.h>

namespace mstrain::cuda {

Walk walk_of(const Shape& dims, const Shape& strides) {
  Walk walk;
  for (int d = 0; d < dims.rank(); ++d) {
    const int64_t size = dims[d];
    if (size == 1) {
      continue;
    }
    if (!walk.dims.empty() && walk.strides.back() == strides[d] * size) {
      walk.dims.back() *= size;
      walk.strides.back() = strides[d];
    } else {
      walk.dims.push_back(size);
      walk.strides.push_back(strides[d]);
    }
  }
  return walk;
}

std::string offset_text(const Walk& walk, size_t begin, size_t end, std::string_view index) {
  std::string result;
  int64_t below = 1;
  for (size_t d = end; d-- > begin;) {
    std::string at = below == 1 ? std::string(index) : fmt::format("{} / {}", index, below);
    if (d > begin) {
      at = fmt::format("{} % {}", at, walk.dims[d]);
    }
    if (walk.strides[d] != 0) {
      const std::string part = walk.strides[d] == 1 ? fmt::format("({})", at)
                                                    : fmt::format("({}) * {}", at, walk.strides[d]);
      result += result.empty() ? part : " + " + part;
    }
    below *= walk.dims[d];
  }
  return result.empty() ? "0" : result;
}

}  // namespace mstrain::cuda
