// Fields of saved states, which come from a file: Error where one is missing or of another type.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/json.h"
#include "core/train/metrics.h"

namespace mstrain {

// `owner` names the state in errors.
int64_t state_count(const Json& state, const char* key, std::string_view owner);  // >= 0
double state_number(const Json& state, const char* key, std::string_view owner);
std::optional<double> state_optional(const Json& state, const char* key, std::string_view owner);
bool state_flag(const Json& state, const char* key, std::string_view owner);
std::string state_text(const Json& state, const char* key, std::string_view owner);

// Whether the state's `monitor` is this one, and its `larger_is_better` the same way. Checkpoints of earlier versions leave out either.
bool state_is_of(const Monitor& monitor, const Json& state, std::string_view owner);

inline Json to_state(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace mstrain
