#include "suites/recommender/deepfm/model.h"

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"

namespace mstrain::recommender::deepfm {

// Rendle 2010, lemma 3.1: half of (the square of the sum less the sum of the squares).
Tensor pairs(const Tensor& vectors_bfd) {
  const Tensor sum_bd = sum(vectors_bfd, {1});
  return 0.5 * sum(square(sum_bd) - sum(square(vectors_bfd), {1}), {1});
}

Tensor logits(const Config& config, const Params& p, const Features& x) {
  const Tensor deep_bh = tower(p / "deep", x, config);
  Tensor out_b = x.weights_b + pairs(all_vectors(x)) + unit(p / "head", deep_bh);
  if (x.numeric_bn.defined()) {
    out_b = out_b + unit(p / "numeric", x.numeric_bn);
  }
  return out_b;
}

}  // namespace mstrain::recommender::deepfm
