// DLRM (Naumov et al. 2019): an MLP makes one more vector of the numbers; products of all pairs of vectors, and that vector, go through
// another MLP.
#pragma once

#include "suites/recommender/models/parts.h"

namespace mstrain::recommender::dlrm {

enum class ModelType { kDlrm };

struct Config : FieldsConfig {
  ModelType type = ModelType::kDlrm;
  std::vector<int64_t> bottom{256, 64};
  TowerConfig top;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"dlrm"}));
    FieldsConfig::fields(v);
    v("bottom", bottom,
      "widths of the hidden layers over the numbers; one of embedding_dim follows them",
      rule::at_least(1).at_most(1 << 20).elsewhere_called({"arch_mlp_bot"}));
    v("top", top, "the MLP over the products");
  }
};

inline constexpr bool kHasWeights = false;

// Log-odds [b].
Tensor logits(const Config& config, const Params& p, const Features& x);

// Products of vector i with vector j for all i > j, in the order of (i, j): [b, f (f - 1) / 2].
Tensor interactions(const Tensor& vectors_bfd);

}  // namespace mstrain::recommender::dlrm
