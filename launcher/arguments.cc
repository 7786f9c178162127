#include "launcher/arguments.h"

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
    i = take_option(arguments, i, options, "mstrain");
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
