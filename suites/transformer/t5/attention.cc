#include "suites/transformer/t5/attention.h"

#include "core/nn/attention.h"

namespace mstrain::t5 {

Tensor attend(const Params& p, const T5Config& config, const Tensor& q_bthd, const Tensor& k_bshd,
              const Tensor& v_bshd, const Sight& sight) {
  AttentionOptions options{.causal = sight.causal,
                           .scale = 1,
                           .start = sight.start,
                           .key_mask = sight.seen_bs,
                           .query_segments = sight.query_segments,
                           .key_segments = sight.key_segments};
  if (sight.distances.defined()) {
    options.relative = RelativeBias{.table = sight.distances,
                                    .max_distance = config.relative_max_distance,
                                    .bidirectional = !sight.causal};
  }
  return attention(p, q_bthd, k_bshd, v_bshd, config.dropout, options);
}

}  // namespace mstrain::t5
