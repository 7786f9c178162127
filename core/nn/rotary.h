// The angles of rotary positions, with the ways in which models reach further than they were trained to: linear
// interpolation (Chen et al. 2023), NTK-aware growth of the base, Llama 3's bands of frequencies, and YaRN (Peng et al. 2023).
#pragma once

#include <optional>

#include "core/base/config.h"
#include "core/ops/rotary.h"

namespace mstrain {

enum class RopeType { kDefault, kLinear, kDynamic, kLlama3, kYarn };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double factor = 1;
  std::optional<int64_t> original_max_position_embeddings;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  std::optional<double> attention_factor;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;

  template <class V>
  void fields(V& v) {
    v("type", type, "how frequencies are stretched for long texts",
      rule::one_of({"default", "linear", "dynamic", "llama3", "yarn"})
          .elsewhere_called({"rope_type"}));
    v("theta", theta, "base: pair j of d/2 turns by theta^(-2j/d) a position",
      rule::positive().elsewhere_called({"rope_theta", "rotary_base", "rope_base"}));
    v("factor", factor, "linear, dynamic, llama3, yarn: how much longer texts become",
      rule::at_least(1).at_most(1e6));
    v("original_max_position_embeddings", original_max_position_embeddings,
      "llama3, yarn: longest sequence before it was stretched; null: max_position_embeddings",
      rule::at_least(1));
    v("low_freq_factor", low_freq_factor,
      "llama3: pairs that turn fewer times in the original length are stretched", rule::positive());
    v("high_freq_factor", high_freq_factor,
      "llama3: pairs that turn more often in the original length stay", rule::positive());
    v("beta_fast", beta_fast, "yarn: pairs that turn more often in the original length stay",
      rule::positive());
    v("beta_slow", beta_slow,
      "yarn: pairs that turn fewer times in the original length are stretched", rule::positive());
    v("truncate", truncate, "yarn: the bounds between them are whole pairs");
    v("attention_factor", attention_factor,
      "yarn: times cosines and sines; null: 0.1 ln(factor) + 1, or what mscale says",
      rule::at_least(0));
    v("mscale", mscale, "yarn: with mscale_all_dim, weight of the logarithm above the line",
      rule::at_least(0));
    v("mscale_all_dim", mscale_all_dim, "yarn: with mscale, weight of the logarithm below it",
      rule::at_least(0));
  }
};

std::string_view name_of(RopeType type);

// What one key alone cannot tell: a key that the type does not use must have its default. `path` names the section. Throws
// ConfigError, with the line where `tree`, the whole configuration, is what `config` was read from.
void check_rope_config(const RopeConfig& config, const std::string& path, int64_t head_dim,
                       const YamlNode& tree = YamlNode());

// By how much pair j < head_dim / 2 turns from one position to the next: [head_dim / 2] of `dtype`, f32 or f64.
// `max_positions`: the model's longest sequence. `dynamic` gives those of sequences up to it.
Tensor rope_frequencies(const RopeConfig& config, int64_t head_dim, int64_t max_positions,
                        Dtype dtype);
// What cosines and sines are multiplied by.
double rope_attention_factor(const RopeConfig& config);

// For rotary(): [b or 1, t, head_dim / 2].
struct Rotation {
  Tensor cos, sin;
};

// Of positions[b or 1, t] (i32), computed in `dtype`, f32 or f64. lengths[b or 1] (i32): of the sequences that they belong
// to, which `dynamic` goes by.
Rotation rotation(const RopeConfig& config, int64_t head_dim, int64_t max_positions,
                  const Tensor& positions_bt, const Tensor& lengths_b, Dtype dtype);

}  // namespace mstrain
