// The section `algorithm`: what an algorithm's own file declares.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/ir/tensor.h"

namespace mstrain::reinforcement {

class AlgorithmConfig {
 public:
  virtual ~AlgorithmConfig() = default;
  // Declares the section's keys, `type` first.
  virtual void fields(ConfigFields& v) = 0;

  std::string type;
  double discount = 0.99;  // of rewards, a step: what values are of
};

// What an update minimises, and further numbers [] for people, by their names in metrics.jsonl.
struct Loss {
  Tensor loss;
  std::vector<std::pair<std::string, Tensor>> measures;

  template <class V>
  void fields(V& v) {
    v("loss", loss);
    for (auto& [name, value] : measures) {
      v(name, value);
    }
  }
};

}  // namespace mstrain::reinforcement
