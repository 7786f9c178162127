// The models of tests/golden/t5_hf.py.
#pragma once

#include "suites/transformer/t5/hf_names.h"
#include "tests/suites/transformer/golden_model.h"

namespace mstrain::t5 {

inline const golden::File& golden_file() {
  static const golden::File kFile = golden::read_file("t5_hf");
  return kFile;
}

// As version 5 of transformers would have written the configuration.
inline T5Config golden_config(const golden::Case& expected) {
  Json json = Json::parse(R"({"model_type": "t5", "vocab_size": 13, "d_model": 12, "d_kv": 4,
      "d_ff": 20, "num_layers": 2, "num_heads": 3, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 12, "dropout_rate": 0.0})");
  json.update(expected.config);
  json["scale_decoder_outputs"] = json.value("tie_word_embeddings", true);
  json["tie_word_embeddings"] = true;
  return config_from_hf(json, expected.name, [&](const std::string& tensor) {
    return tensor == "lm_head.weight" && expected.rest.at("own_head").get<bool>();
  });
}

}  // namespace mstrain::t5
