// Tiny Hugging Face model directories with the weights of tests/golden/philox_weights.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/io/safetensors_folder.h"
#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"
#include "tests/suites/transformer/golden_model.h"

namespace mstrain::gpt {

// config.json of a model with 2 layers, 3 heads and 12 dims; `options` replaces keys.
inline Json tiny_config(const Json& options = Json::object()) {
  Json json =
      Json::parse(R"({"model_type": "gpt2", "vocab_size": 11, "n_positions": 8, "n_embd": 12,
      "n_layer": 2, "n_head": 3, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
      "eos_token_id": 5})");
  json.update(options);
  return json;
}

inline void write_safetensors(const std::string& path,
                              const std::map<std::string, std::pair<Shape, std::string>>& tensors,
                              Dtype dtype) {
  std::vector<SafetensorsWriter::Tensor> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, dtype, {tensor.first.begin(), tensor.first.end()}});
  }
  SafetensorsWriter writer(real_files(), path, entries);
  for (const TensorEntry& entry : writer.entries()) {
    writer.append(entry.name, as_bytes(tensors.at(entry.name).second));
  }
  writer.finish();
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Writes config.json and model.safetensors into the folder, which exists.
inline void write_model(const std::string& folder, const Json& config) {
  write_file_atomic(real_files(), join_path(folder, "config.json"), config.dump());
  std::map<std::string, std::pair<Shape, std::string>> tensors;
  uint64_t stream = 0;
  const GptConfig model = config_from_hf(config, "config.json");
  for (const ParamSpec& spec : Gpt(model).specs()) {
    const auto values = golden::weights(spec.name, spec.type.elements(), stream++);
    tensors[spec.name] = {hf_shape(model, spec.name, spec.type.shape),
                          bytes_of(std::vector<float>(values.begin(), values.end()))};
  }
  write_safetensors(join_path(folder, kWeightsFile), tensors, Dtype::kF32);
}

}  // namespace mstrain::gpt
