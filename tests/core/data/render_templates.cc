// Renders chat templates for a test in Python: reads lines {"template", "variables", "now"}, prints lines {"text"} or {"error"}.
#include <fmt/core.h>

#include <iostream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/jinja/from_json.h"
#include "core/data/jinja/template.h"

namespace mstrain {
namespace {

OrderedJson answer(const OrderedJson& request) {
  try {
    const jinja::Template read(request["template"].get<std::string>(), "template");
    const jinja::Value variables = jinja::from_json(request["variables"]);
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
