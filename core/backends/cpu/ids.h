// Indices of rows in i32 or i64 memory.
#pragma once

#include <string_view>

#include "core/backends/cpu/kernels.h"

namespace mstrain::cpu {

// Reads ids of either type.
struct Ids {
  const void* data = nullptr;
  bool wide = false;

  Ids(const void* address, Dtype dtype) : data(address), wide(dtype == Dtype::kI64) {}
  int64_t operator[](int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

// Throws Error unless every id lies in [0, limit): "gather: id 70 at position 3 is outside of [0, 65)".
// `ignored` is allowed besides.
inline void check_ids(std::string_view op, const Ids& ids, int64_t count, int64_t limit,
                      const int64_t* ignored = nullptr) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = ids[i];
    if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(limit) &&
        (ignored == nullptr || id != *ignored)) {
      fail("{}: id {} at position {} is outside of [0, {})", op, id, i, limit);
    }
  }
}

}  // namespace mstrain::cpu
