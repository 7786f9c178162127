#include "suites/recommender/wide_deep/model.h"

#include "core/ops/elementwise.h"

namespace mstrain::recommender::wide_deep {

// The bias is the wide part's: the last layer's own would be a second one.
Tensor logits(const Config& config, const Params& p, const Features& x) {
  const Tensor deep_bh = tower(p / "deep", x, config);
  return x.weights_b + unit(p / "head", deep_bh);
}

}  // namespace mstrain::recommender::wide_deep
