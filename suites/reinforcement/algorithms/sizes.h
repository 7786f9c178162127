// Sizes of tensors as sizes of containers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mstrain::reinforcement {

constexpr size_t count(int64_t n) { return static_cast<size_t>(n); }

}  // namespace mstrain::reinforcement
