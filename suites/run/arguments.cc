#include "suites/run/arguments.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/yaml_scalar.h"

namespace mstrain {
namespace {

std::string signature(const Option& option) {
  return option.value_name.empty() ? option.name
                                   : fmt::format("{} {}", option.name, option.value_name);
}

}  // namespace

bool asks_for_help(std::span<const std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end, [](const std::string& argument) {
    return argument == "--help" || argument == "-h";
  });
}

void warn_of_repeated(std::span<const std::string> overrides) {
  std::map<std::string_view, std::string_view> given;
  for (const std::string_view text : overrides) {
    const size_t equals = std::min(text.find('='), text.size() - 1);
    const std::string_view key = text.substr(0, equals);
    const std::string_view value = text.substr(equals + 1);
    if (const auto [before, is_new] = given.try_emplace(key, value);
        !is_new && !value.starts_with('{')) {
      log_warning("command line: {}: is given twice; {} counts, not {}", key, value,
                  before->second);
      before->second = value;
    }
  }
}

std::optional<std::vector<std::string>> parse_arguments(const Usage& usage,
                                                        std::span<const std::string> arguments,
                                                        std::span<const Option> options) {
  if (asks_for_help(arguments)) {
    const std::string list = describe(options);
    fmt::print("usage: mstrain {} {}\n\n{}\n{}{}", usage.name, usage.synopsis, usage.about,
               list.empty() ? "" : "\n", list);
    return std::nullopt;
  }
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
    const std::string program =
        *usage.name == '\0' ? "mstrain" : fmt::format("mstrain {}", usage.name);
    i = take_option(arguments, i, options, program);
  }
  return rest;
}

bool parse_options(const Usage& usage, std::span<const std::string> arguments,
                   std::span<const Option> options) {
  const auto rest = parse_arguments(usage, arguments, options);
  if (rest && !rest->empty()) {
    throw ConfigError(
        fmt::format("{}: is not expected here; see mstrain {} --help", rest->front(), usage.name));
  }
  return rest.has_value();
}

std::string describe(std::span<const Option> options) {
  size_t width = 0;
  for (const Option& option : options) {
    width = std::max(width, signature(option).size());
  }
  std::string out;
  for (const Option& option : options) {
    out += fmt::format("  {:<{}}  {}\n", signature(option), width, option.help);
  }
  return out;
}

Option text_option(const char* name, const char* value_name, std::optional<std::string>& out,
                   const char* help) {
  const auto take = [&out, name](const std::string& text) {
    if (out) {
      throw ConfigError(fmt::format("{}: is given twice, as {} and {}", name, *out, text));
    }
    out = text;
  };
  return {name, value_name, take, help};
}

Option flag(const char* name, bool& out, const char* help) {
  return {name, "", [&out](const std::string&) { out = true; }, help};
}

const std::string& required(const std::optional<std::string>& value, const char* what) {
  if (!value) {
    throw ConfigError(fmt::format("{} is missing", what));
  }
  return *value;
}

int64_t integer_value(const std::string& option, const std::string& text) {
  const auto value = yaml_scalar::parse_whole(text);
  if (!value) {
    const bool is_large = yaml_scalar::parse_double(text).has_value() &&
                          text.find_first_of(".e") == std::string::npos;
    throw ConfigError(
        fmt::format("{}: expected an integer{}, found \"{}\"", option,
                    is_large ? " from -9223372036854775808 to 9223372036854775807" : "", text));
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

}  // namespace mstrain
