// Small models whose texts differ, and what they say without kept keys and values.
#pragma once

#include "core/tensor/host.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"

namespace mstrain {

inline constexpr int64_t kVocab = 300;

inline std::shared_ptr<const CausalModel> small_gpt(int64_t positions) {
  gpt::GptConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 24;
  config.num_layers = 2;
  config.num_attention_heads = 3;
  config.max_position_embeddings = positions;
  config.scale_attn_by_inverse_layer_idx = true;
  config.dropout = {0.5, 0.5, 0.5};  // not in inference
  config.init.std = 0.4;             // so that texts differ
  return std::make_shared<gpt::Gpt>(config);
}

// Two heads for each of keys, and a window, in the second layer or in both, that is shorter than the texts.
inline std::shared_ptr<const CausalModel> small_llama(int64_t positions, const RopeConfig& rope,
                                                      int64_t window = 5, int64_t full_layers = 1) {
  llama::LlamaConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 24;
  config.num_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.max_position_embeddings = positions;
  config.attention_bias = llama::AttentionBias::kQkv;
  config.sliding_window = window;
  config.full_attention_layers = full_layers;
  config.rope = rope;
  config.dropout.attention = 0.5;
  config.init.std = 0.4;
  return std::make_shared<llama::Llama>(config);
}

inline std::vector<int32_t> random_ids(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(rng.below(kVocab)));
  }
  return ids;
}

// Logits of what follows `ids`, by the whole model.
inline std::vector<float> uncached(const CausalModel& model, const Params& params,
                                   std::span<const int32_t> ids) {
  const auto t = static_cast<int64_t>(ids.size());
  const std::vector<float> all = to_vector<float>(model(params, tensor<int32_t>(ids, {1, t})));
  return {all.end() - kVocab, all.end()};
}

inline int32_t likeliest(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace mstrain
