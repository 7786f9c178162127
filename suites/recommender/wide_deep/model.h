// Wide & Deep (Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems"): single weights of all ids and crosses, added up, beside
// an MLP over their vectors.
#pragma once

#include "suites/recommender/models/parts.h"

namespace mstrain::recommender::wide_deep {

enum class ModelType { kWideDeep };

struct Config : FieldsConfig, TowerConfig {
  ModelType type = ModelType::kWideDeep;
  std::optional<std::vector<std::string>> wide_fields;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"wide_deep"}));
    FieldsConfig::fields(v);
    v("wide_fields", wide_fields, "fields whose ids have single weights; null: all");
    TowerConfig::fields(v);
  }
};

inline constexpr bool kHasWeights = true;

// Log-odds [b].
Tensor logits(const Config& config, const Params& p, const Features& x);

}  // namespace mstrain::recommender::wide_deep
