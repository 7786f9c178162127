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
  const auto option_of = [&](std::string_view text) {
    return std::ranges::find(options, text.substr(0, text.find('=')), &Option::name);
  };
  const auto option = option_of(argument);
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
  } else if (at + 1 == arguments.size()) {
    throw ConfigError(fmt::format("{}: expected {} after it", name, option->value_name));
  } else if (const auto next = option_of(arguments[at + 1]); next != options.end()) {
    throw ConfigError(
        fmt::format("{0}: expected {1} after it, found the option {2}; as a value: {0}={2}", name,
                    option->value_name, arguments[at + 1]));
  } else {
    option->set(arguments[++at]);
  }
  return at;
}

}  // namespace mstrain
