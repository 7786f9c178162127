#include "launcher/arguments.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/yaml_scalar.h"

namespace mstrain::launcher {

std::vector<std::string> parse_arguments(std::span<const std::string> arguments,
                                         std::span<const Option> options) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  arguments.end());
      break;
    }
    if (!argument.starts_with('-') || argument == "-") {
      rest.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const auto option = std::find_if(options.begin(), options.end(),
                                     [&](const Option& known) { return known.name == name; });
    if (option == options.end()) {
      std::vector<std::string> names;
      for (const Option& known : options) {
        names.push_back(known.name);
      }
      throw ConfigError(
          fmt::format("{}: unknown option{}; see mstrain --help", name, did_you_mean(name, names)));
    }
    if (option->placeholder.empty()) {
      if (equals != std::string::npos) {
        throw ConfigError(fmt::format("{}: takes no value", name));
      }
      option->set("");
    } else if (equals != std::string::npos) {
      option->set(argument.substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      option->set(arguments[++i]);
    } else {
      throw ConfigError(fmt::format("{}: expected {} after it", name, option->placeholder));
    }
  }
  return rest;
}

int64_t integer_value(const std::string& option, const std::string& text) {
  const auto value = yaml_scalar::parse_int(text);
  if (!value) {
    throw ConfigError(fmt::format("{}: expected an integer, found \"{}\"", option, text));
  }
  return *value;
}

double number_value(const std::string& option, const std::string& text) {
  const auto value = yaml_scalar::parse_double(text);
  if (!value) {
    throw ConfigError(fmt::format("{}: expected a number, found \"{}\"", option, text));
  }
  return *value;
}

}  // namespace mstrain::launcher
