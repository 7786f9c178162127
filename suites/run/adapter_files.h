// Adapters on disk, as PEFT has them (github.com/huggingface/peft, "Checkpoint format"): a folder with
// adapter_model.safetensors and adapter_config.json.
#pragma once

#include <string>

#include "core/base/files.h"
#include "core/base/json.h"
#include "suites/run/adapted_network.h"

namespace mstrain {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";

// Whether `folder` holds an adapter.
bool has_adapter(FileSystem& files, const std::string& folder);

// Its tensors. Throws IoError.
SafetensorsFolder adapter_tensors(FileSystem& files, const std::string& folder);

// base_model_name_or_path of an adapter_config.json; `source` names the file. Throws Error where there is none.
std::string adapted_model(const Json& config, const std::string& source);

// The rest of it; `base`: the model that is adapted. Throws Error naming a key that asks for what is not supported, or that is
// unknown and might change the answer.
LoraConfig lora_of(const Json& config, const std::string& source,
                   const std::shared_ptr<const Network>& base);

// The reverse; `base_folder`: where the model that is adapted lies.
std::string adapter_config(const AdaptedNetwork& network, const std::string& base_folder);

}  // namespace mstrain
