// DCN-v2 (Wang et al. 2021, "DCN V2: Improved Deep & Cross Network"): layers that multiply what they were given by a linear map of what they
// have, before an MLP or beside it.
#pragma once

#include "suites/recommender/models/parts.h"

namespace mstrain::recommender::dcn_v2 {

enum class ModelType { kDcnV2 };
enum class Structure { kStacked, kParallel };

struct CrossConfig {
  int64_t layers = 3;
  std::optional<int64_t> rank;
  Structure structure = Structure::kStacked;

  template <class V>
  void fields(V& v) {
    v("layers", layers, "crosses", rule::at_least(1).at_most(64));
    v("rank", rank, "of the map of each, as a product of two; null: full",
      rule::at_least(1).elsewhere_called({"low_rank", "dcn_low_rank_dim"}));
    v("structure", structure, "crosses before the MLP, or beside it",
      rule::one_of({"stacked", "parallel"}));
  }
};

struct Config : FieldsConfig, TowerConfig {
  ModelType type = ModelType::kDcnV2;
  CrossConfig cross;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"dcn_v2"}).elsewhere_called({"dcn", "dcnv2"}));
    FieldsConfig::fields(v);
    v("cross", cross, "the cross layers");
    TowerConfig::fields(v);
  }
};

inline constexpr bool kHasWeights = false;

// Log-odds [b].
Tensor logits(const Config& config, const Params& p, const Features& x);

}  // namespace mstrain::recommender::dcn_v2
