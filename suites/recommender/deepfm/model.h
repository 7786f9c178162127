// DeepFM (Guo et al. 2017): a factorisation machine and an MLP over the same vectors.
#pragma once

#include "suites/recommender/models/parts.h"

namespace mstrain::recommender::deepfm {

enum class ModelType { kDeepFm };

struct Config : FieldsConfig, TowerConfig {
  ModelType type = ModelType::kDeepFm;
  std::optional<std::vector<std::string>> wide_fields;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"deepfm"}));
    FieldsConfig::fields(v);
    v("wide_fields", wide_fields, "fields whose ids have single weights; null: all");
    TowerConfig::fields(v);
  }
};

inline constexpr bool kHasWeights = true;

// Log-odds [b].
Tensor logits(const Config& config, const Params& p, const Features& x);

// The sum over all pairs of fields of the products of their vectors: [b].
Tensor pairs(const Tensor& vectors_bfd);

}  // namespace mstrain::recommender::deepfm
