// The models of tests/golden/t5_hf.py.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "suites/transformer/t5/hf_names.h"
#include "suites/transformer/t5/model.h"
#include "tests/golden/t5_hf.h"

namespace mstrain::t5 {

// As version 5 of transformers would have written the configuration.
inline T5Config golden_config(const golden::T5Case& expected) {
  Json json = Json::parse(R"({"model_type": "t5", "vocab_size": 13, "d_model": 12, "d_kv": 4,
      "d_ff": 20, "num_layers": 2, "num_heads": 3, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 12, "dropout_rate": 0.0})");
  json.update(Json::parse(expected.options));
  json["scale_decoder_outputs"] = json.value("tie_word_embeddings", true);
  json["tie_word_embeddings"] = true;
  return config_from_hf(json, expected.name, [&](const std::string& tensor) {
    return tensor == "lm_head.weight" && expected.own_head;
  });
}

// The weights of tests/golden/t5_hf.py.
inline Params golden_params(const T5& model, const golden::T5Case& expected, Dtype dtype) {
  constexpr uint64_t kSeed = 20240601;
  std::map<std::string, Shape> shapes;
  for (const ParamSpec& spec : model.specs()) {
    shapes[spec.name] = spec.type.shape;
  }
  Params p;
  for (size_t stream = 0; stream < expected.gradients.size(); ++stream) {
    const std::string name(expected.gradients[stream].name);
    const bool is_norm = name.find("layer_norm") != std::string::npos;
    std::vector<double> values;
    for (int64_t i = 0; i < shapes.at(name).elements(); ++i) {
      const uint32_t word =
          philox(philox_counter(static_cast<uint64_t>(i), stream), philox_key(kSeed))[0];
      const double centred = 2 * static_cast<double>(word >> 8) * 0x1p-24 - 1;
      values.push_back(is_norm ? 1 + 0.25 * centred : 0.5 * centred);
    }
    p.set(name, cast(tensor<double>(values, shapes.at(name)), dtype));
  }
  EXPECT_EQ(p.size(), shapes.size());
  return p;
}

}  // namespace mstrain::t5
