#include "suites/recommender/dcn_v2/model.h"

#include "core/nn/layers.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain::recommender::dcn_v2 {
namespace {

// x_{l+1} = x_0 * (W x_l + b) + x_l; W = U V where the rank is bounded.
Tensor crossed(const CrossConfig& config, const Params& p, const Tensor& first_bn) {
  Tensor x_bn = first_bn;
  const int64_t n = first_bn.dim(1);
  for (int64_t l = 0; l < config.layers; ++l) {
    const Params layer = p / l;
    const Tensor map_bn =
        config.rank
            ? linear(layer / "u", linear(layer / "v", x_bn, {*config.rank}, {.bias = false}), {n})
            : linear(layer, x_bn, {n});
    x_bn = first_bn * map_bn + x_bn;
  }
  return x_bn;
}

}  // namespace

Tensor logits(const Config& config, const Params& p, const Features& x) {
  const Tensor first_bn = side_by_side(x);
  const Tensor cross_bn = crossed(config.cross, p / "cross", first_bn);
  const bool is_stacked = config.cross.structure == Structure::kStacked;
  Tensor out_bh = tower(p / "deep", is_stacked ? cross_bn : first_bn, config);
  if (!is_stacked) {
    const Tensor parts[] = {cross_bn, out_bh};
    out_bh = concat(parts, 1);
  }
  return unit(p / "head", out_bh);
}

}  // namespace mstrain::recommender::dcn_v2
