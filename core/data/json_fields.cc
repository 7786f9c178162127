#include "core/data/json_fields.h"

#include "core/base/error.h"

namespace mstrain {

std::string shown(const Json& json) {
  std::string text = json.is_object() ? "an object" : json.is_array() ? "a list" : json.dump();
  if (text.size() > 100) {
    text = text.substr(0, 97) + "...";
  }
  return text;
}

JsonFields::JsonFields(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) {
    throw IoError(fmt::format("{}: expected an object, found {}", where_, shown(json)));
  }
}

const Json* JsonFields::find(const std::string& key) {
  known_.insert(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonFields::required(const std::string& key) {
  const Json* found = find(key);
  if (found == nullptr) {
    throw IoError(fmt::format("{}: has no `{}`", where_, key));
  }
  return *found;
}

bool JsonFields::boolean(const std::string& key, bool otherwise) {
  const Json* found = find(key);
  if (found == nullptr) {
    return otherwise;
  }
  if (!found->is_boolean()) {
    refuse(key, fmt::format("expected true or false, found {}", shown(*found)));
  }
  return found->get<bool>();
}

std::string JsonFields::text(const std::string& key) {
  const Json& found = required(key);
  if (!found.is_string()) {
    refuse(key, fmt::format("expected a string, found {}", shown(found)));
  }
  return found.get<std::string>();
}

std::string JsonFields::text(const std::string& key, const std::string& otherwise) {
  return find(key) == nullptr ? otherwise : text(key);
}

int64_t JsonFields::integer(const std::string& key) {
  const Json& found = required(key);
  if (!found.is_number_integer() ||
      (found.is_number_unsigned() && found.get<uint64_t>() >= uint64_t{1} << 53)) {
    refuse(key, fmt::format("expected an integer, found {}", shown(found)));
  }
  return found.get<int64_t>();
}

void JsonFields::refuse(const std::string& key, std::string_view why) const {
  throw IoError(fmt::format("{}: {}", at(key), why));
}

void JsonFields::finish() const {
  for (const auto& [key, value] : json_.items()) {
    if (!known_.contains(key)) {
      const std::vector<std::string> names(known_.begin(), known_.end());
      throw IoError(fmt::format("{}: unknown field{}", at(key), did_you_mean(key, names)));
    }
  }
}

}  // namespace mstrain
