#include "core/base/arguments.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"

namespace mstrain {

size_t take_option(std::span<const std::string> arguments, size_t at,
                   std::span<const Option> options, std::string_view program) {
  const std::string& argument = arguments[at];
  const size_t equals = argument.find('=');
  const std::string name = argument.substr(0, equals);
  const auto option = std::find_if(options.begin(), options.end(),
                                   [&](const Option& known) { return known.name == name; });
  if (option == options.end()) {
    std::vector<std::string> names;
    for (const Option& known : options) {
      names.push_back(known.name);
    }
    throw ConfigError(fmt::format("{}: {}{}; see {} --help", name,
                                  name.starts_with('-') ? "unknown option" : "expected an option",
                                  did_you_mean(name, names), program));
  }
  if (option->value_name.empty()) {
    if (equals != std::string::npos) {
      throw ConfigError(fmt::format("{}: takes no value", name));
    }
    option->set("");
  } else if (equals != std::string::npos) {
    option->set(argument.substr(equals + 1));
  } else if (at + 1 < arguments.size()) {
    option->set(arguments[++at]);
  } else {
    throw ConfigError(fmt::format("{}: expected {} after it", name, option->value_name));
  }
  return at;
}

}  // namespace mstrain
