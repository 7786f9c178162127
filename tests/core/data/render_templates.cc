// Renders chat templates for a test in Python: reads lines {"template", "variables", "now"}, prints lines {"text"} or {"error"}.
#include <fmt/core.h>

#include <iostream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/jinja/template.h"

namespace mstrain {
namespace {

jinja::Value value_of(const OrderedJson& json) {
  if (json.is_null()) {
    return jinja::None();
  }
  if (json.is_boolean()) {
    return json.get<bool>();
  }
  if (json.is_number_integer()) {
    return json.get<int64_t>();
  }
  if (json.is_number()) {
    return json.get<double>();
  }
  if (json.is_string()) {
    return jinja::Text(json.get<std::string>(), /*from_outside=*/true);
  }
  if (json.is_array()) {
    jinja::List list;
    for (const OrderedJson& each : json) {
      list.items.push_back(value_of(each));
    }
    return list;
  }
  jinja::Dict dict;
  for (const auto& [key, each] : json.items()) {
    dict.emplace_back(key, value_of(each));
  }
  return dict;
}

OrderedJson answer(const OrderedJson& request) {
  try {
    const jinja::Template read(request["template"].get<std::string>(), "template");
    const jinja::Value variables = value_of(request["variables"]);
    return {{"text", read.render(*variables.dict(), request["now"].get<std::time_t>()).bytes()}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace
}  // namespace mstrain

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    fmt::print("{}\n", mstrain::answer(mstrain::OrderedJson::parse(line)).dump());
  }
}
