// Where elements lie, as expressions of their numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/view.h"

namespace mstrain::cuda {

// Dims of size 1 left out, neighbours that are stepped through evenly merged.
struct Walk {
  std::vector<int64_t> dims, strides;
};
Walk walk_of(const Shape& dims, const Shape& strides);
inline Walk walk_of(const ViewType& view) { return walk_of(view.type.shape, view.strides); }

// The offset of element `index` of dims [begin, end).
std::string offset_text(const Walk& walk, size_t begin, size_t end, std::string_view index);
inline std::string offset_text(const Walk& walk, std::string_view index) {
  return offset_text(walk, 0, walk.dims.size(), index);
}

}  // namespace mstrain::cuda
