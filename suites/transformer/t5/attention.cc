#include "suites/transformer/t5/attention.h"

#include <limits>

#include "core/nn/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain::t5 {

Tensor attend(const Params& p, const T5Config& config, const Tensor& q_bthd, const Tensor& k_bshd,
              const Tensor& v_bshd, const Sight& sight) {
  AttentionOptions options{
      .causal = sight.causal, .scale = 1, .start = sight.start, .key_mask = sight.seen_bs};
  if (sight.distances.defined()) {
    options.relative = RelativeBias{.table = sight.distances,
                                    .max_distance = config.relative_max_distance,
                                    .bidirectional = !sight.causal};
  }
  if (sight.query_segments.defined()) {
    const int64_t b = q_bthd.dim(0);
    const Tensor seen = equal(reshape(sight.query_segments, {b, 1, q_bthd.dim(1), 1}),
                              reshape(sight.key_segments, {b, 1, 1, k_bshd.dim(1)}));
    const Dtype dtype = q_bthd.dtype();
    options.bias =
        where(seen, full({}, 0, dtype), full({}, -std::numeric_limits<double>::infinity(), dtype));
  }
  return attention(p, q_bthd, k_bshd, v_bshd, config.dropout, options);
}

}  // namespace mstrain::t5
