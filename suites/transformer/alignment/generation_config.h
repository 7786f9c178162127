// The section `generation` of objectives that write answers: how the policy writes them.
#pragma once

#include "core/base/config.h"

namespace mstrain {

struct GenerationConfig {
  AutoOr<bool> exact;

  template <class V>
  void fields(V& v) {
    v("exact", exact,
      "true: tokens are drawn from the very probabilities that the step finds for them, bit for "
      "bit, "
      "by kernels whose numbers depend on nothing beside them; false: by the fastest ones, and "
      "mismatch_* say how far apart they are; auto: true where that can be promised, with fp32 "
      "parameters on the CPU and whole layers");
  }
};

}  // namespace mstrain
