// Initialisers that depend on the dims of a layer. fan_in, fan_out: how many inputs an output sums up, and the reverse.
#pragma once

#include <cmath>

#include "core/tensor/params.h"

namespace mstrain {

// Variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010).
inline Init xavier_normal(int64_t fan_in, int64_t fan_out) {
  return normal_init(std::sqrt(2.0 / static_cast<double>(fan_in + fan_out)));
}
inline Init xavier_uniform(int64_t fan_in, int64_t fan_out) {
  return uniform_init(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

// Variance 2 / fan_in, for layers before a relu (He et al. 2015).
inline Init kaiming_normal(int64_t fan_in) {
  return normal_init(std::sqrt(2.0 / static_cast<double>(fan_in)));
}
inline Init kaiming_uniform(int64_t fan_in) {
  return uniform_init(std::sqrt(6.0 / static_cast<double>(fan_in)));
}

// Uniform within 1 / sqrt(fan_in): what layers here use where nothing else is said.
inline Init fan_in_uniform(int64_t fan_in) {
  return uniform_init(1.0 / std::sqrt(static_cast<double>(fan_in)));
}

}  // namespace mstrain
