#include "core/train/state_fields.h"

#include "core/base/error.h"

namespace mstrain {
namespace {

const Json& field(const Json& state, const char* key, std::string_view owner) {
  check(state.is_object() && state.contains(key), "{}: the saved state has no {}", owner, key);
  return state.find(key).value();
}

}  // namespace

int64_t state_count(const Json& state, const char* key, std::string_view owner) {
  const Json& value = field(state, key, owner);
  check(value.is_number_integer() && value.get<int64_t>() >= 0, "{}: the saved {} is no count",
        owner, key);
  return value.get<int64_t>();
}

double state_number(const Json& state, const char* key, std::string_view owner) {
  const Json& value = field(state, key, owner);
  check(value.is_number(), "{}: the saved {} is no number", owner, key);
  return value.get<double>();
}

std::optional<double> state_optional(const Json& state, const char* key, std::string_view owner) {
  return field(state, key, owner).is_null() ? std::nullopt
                                            : std::optional(state_number(state, key, owner));
}

bool state_flag(const Json& state, const char* key, std::string_view owner) {
  const Json& value = field(state, key, owner);
  check(value.is_boolean(), "{}: the saved {} is neither true nor false", owner, key);
  return value.get<bool>();
}

std::string state_text(const Json& state, const char* key, std::string_view owner) {
  const Json& value = field(state, key, owner);
  check(value.is_string(), "{}: the saved {} is no text", owner, key);
  return value.get<std::string>();
}

bool state_is_of(const Monitor& monitor, const Json& state, std::string_view owner) {
  return (!state.contains("monitor") || state_text(state, "monitor", owner) == monitor.name()) &&
         (!state.contains("larger_is_better") ||
          state_flag(state, "larger_is_better", owner) == monitor.larger_is_better());
}

}  // namespace mstrain
