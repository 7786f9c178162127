// What hand-written twins of losses begin with: parameters that are numbers, and layers of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/mstrain.h"

namespace mstrain::reinforcement {

using Numbers = std::vector<double>;

// Values of parameters from `seed` on, in [-0.8, 0.8].
inline Params numbers(std::span<const ParamSpec> specs, uint64_t seed) {
  Params out;
  Rng rng(seed);
  for (const ParamSpec& spec : specs) {
    std::vector<float> values(static_cast<size_t>(spec.type.elements()));
    for (float& each : values) {
      each = static_cast<float>(rng.uniform(-0.8, 0.8));
    }
    out.set(spec.name, tensor<float>(values, spec.type.shape));
  }
  return out;
}

// The linear layer at `path`, with weights [in, out].
inline Numbers layer(const Params& p, const std::string& path, const Numbers& x) {
  const Numbers weight = to_doubles(*p.find(path + ".weight"));
  Numbers out = to_doubles(*p.find(path + ".bias"));
  const size_t outputs = out.size();
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < outputs; ++j) {
      out[j] += x[i] * weight[i * outputs + j];
    }
  }
  return out;
}

}  // namespace mstrain::reinforcement
