// The section `generation` of objectives that write answers: how the policy writes them.
#pragma once

#include <optional>

#include "core/base/config.h"

namespace mstrain {

struct GenerationConfig {
  AutoOr<bool> exact;
  AllOr<int64_t> rows;
  double temperature = 1;
  std::optional<int64_t> top_k;
  std::optional<double> top_p, min_p;

  template <class V>
  void fields(V& v) {
    v("exact", exact,
      "true: tokens are drawn from the very probabilities that the step finds for them, bit for "
      "bit, "
      "by kernels whose numbers depend on nothing beside them; false: by the fastest ones, and "
      "mismatch_* say how far apart they are; auto: true where that can be promised, with fp32 "
      "parameters on the CPU, and with parallel.context where one rank finds all keys");
    v("rows", rows,
      "answers that are written at a time; one that has come to an end makes room for another, so "
      "that memory and time go to what is still written; all: those of a step",
      rule::at_least(1).elsewhere_called({"max_num_seqs", "per_device_generation_batch_size"}));
    v("temperature", temperature,
      "logits are divided by it: the policy that writes, and that learns, is the one at this "
      "temperature",
      rule::positive());
    v("top_k", top_k,
      "tokens are drawn from the so many likeliest; those that each was drawn from are kept with "
      "it, and its probabilities, now and later, are those among them",
      rule::at_least(1));
    v("top_p", top_p,
      "then from the fewest whose probabilities sum up to it; needs top_k, which bounds what is "
      "kept",
      rule::above(0).at_most(1));
    v("min_p", min_p,
      "then from those with so many times the probability of the likeliest; needs top_k, too",
      rule::above(0).at_most(1));
  }

  // So many tokens, at most, are kept that each was drawn from; 0: it was drawn from all.
  int64_t support() const { return top_k.value_or(0); }
};

}  // namespace mstrain
