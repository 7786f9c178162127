// The section `generation` of objectives that write answers: how the policy writes them.
#pragma once

#include "core/base/config.h"

namespace mstrain {

struct GenerationConfig {
  AutoOr<bool> exact;
  AllOr<int64_t> rows;

  template <class V>
  void fields(V& v) {
    v("exact", exact,
      "true: tokens are drawn from the very probabilities that the step finds for them, bit for "
      "bit, "
      "by kernels whose numbers depend on nothing beside them; false: by the fastest ones, and "
      "mismatch_* say how far apart they are; auto: true where that can be promised, with fp32 "
      "parameters on the CPU and whole layers");
    v("rows", rows,
      "answers that are written at a time; one that has come to an end makes room for another, so "
      "that memory and time go to what is still written; all: those of a step",
      rule::at_least(1).elsewhere_called({"max_num_seqs", "per_device_generation_batch_size"}));
  }
};

}  // namespace mstrain
