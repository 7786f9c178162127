#include "suites/recommender/dlrm/model.h"

#include "core/ops/einsum.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"

namespace mstrain::recommender::dlrm {

Tensor interactions(const Tensor& vectors_bfd) {
  const int64_t f = vectors_bfd.dim(1);
  std::vector<int32_t> below;
  for (int64_t i = 0; i < f; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      below.push_back(static_cast<int32_t>(i * f + j));
    }
  }
  const Tensor all_bff = einsum("bfd,bgd->bfg", {vectors_bfd, vectors_bfd});
  return take(flatten(all_bff, 1), tensor<int32_t>(below, {std::ssize(below)}), 1);
}

Tensor logits(const Config& config, const Params& p, const Features& x) {
  Tensor vectors_bfd = all_vectors(x);
  Tensor numbers_bd;
  if (x.numeric_bn.defined()) {
    TowerConfig bottom{.hidden = config.bottom, .activation = config.top.activation};
    bottom.hidden.push_back(config.embedding_dim);
    numbers_bd = tower(p / "bottom", x.numeric_bn, bottom);
    const Tensor parts[] = {expand_dims(numbers_bd, 1), vectors_bfd};
    vectors_bfd = concat(parts, 1);
  }
  Tensor pairs_bp = interactions(vectors_bfd);
  if (numbers_bd.defined()) {
    const Tensor parts[] = {numbers_bd, pairs_bp};
    pairs_bp = concat(parts, 1);
  }
  return unit(p / "head", tower(p / "top", pairs_bp, config.top));
}

}  // namespace mstrain::recommender::dlrm
