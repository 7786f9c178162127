// Reads the fields of a JSON object by name, so that in the end each was asked for: what nobody
// asked for is an error that names it. For files whose every field changes what they mean.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace mstrain {

class JsonFields {
 public:
  // `where` names the object in errors: "tokenizer.json: model". Throws IoError where `json` is no
  // object. `json` must outlive this.
  JsonFields(const Json& json, std::string where);

  // The field; null where it is absent or JSON's null.
  const Json* find(const std::string& key);
  const Json& required(const std::string& key);  // an error instead of null

  // Absent and null give `otherwise`; another type is an error.
  bool boolean(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  std::string text(const std::string& key);  // required
  int64_t integer(const std::string& key);   // required; an integer below 2^53

  // Throws IoError "<where>.<key>: <why>".
  [[noreturn]] void refuse(const std::string& key, std::string_view why) const;

  // Throws where a field was never asked for.
  void finish() const;

  std::string at(const std::string& key) const { return where_ + "." + key; }

 private:
  const Json& json_;
  std::string where_;
  std::set<std::string> known_;
};

// The value as it is shown in an error: cut short where it is long.
std::string shown(const Json& json);

}  // namespace mstrain
