// What ends a text that a model writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suites/run/stored_model.h"

namespace mstrain {

inline constexpr const char* kGenerationConfigFile = "generation_config.json";

// eos_token_id of config.json and of generation_config.json, the model's own and those of the model that it adapts, in that order.
// Throws IoError, also for what is no id.
std::vector<int32_t> stop_ids(FileSystem& files, const StoredModel& model);

// generation_config.json of a run that begins with the model `begun`, or with none, and teaches texts to end with the token `end`: that of
// the model, with this token among its stops. None where config.json says it all.
std::optional<std::string> generation_config(FileSystem& files, const StoredModel* begun,
                                             std::optional<int32_t> end);

}  // namespace mstrain
