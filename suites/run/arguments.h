// Command lines: options with values, flags, what remains, and what --help says of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/arguments.h"

namespace mstrain {

// How a command is called and what it does.
struct Usage {
  const char* name;      // "generate"; empty: a run
  const char* synopsis;  // what follows the name
  const char* about;     // lines without indentation
};

// Calls the options' setters in the order of `arguments` ("--seed 3" or "--seed=3") and returns the rest; what follows
// "--" is the rest as it is. Where --help is among them, calls no setter, prints the command's own help to standard output and
// returns none. Throws ConfigError for an unknown option, with the nearest known one, and for a value that is missing or not
// wanted.
std::optional<std::vector<std::string>> parse_arguments(const Usage& usage,
                                                        std::span<const std::string> arguments,
                                                        std::span<const Option> options);
// The same for a command that takes options alone; false after help.
bool parse_options(const Usage& usage, std::span<const std::string> arguments,
                   std::span<const Option> options);

// Whether --help or -h is among them, in front of any "--".
bool asks_for_help(std::span<const std::string> arguments);

// Warns where key.path=value gives a key twice, of which the last one counts; maps are laid over each other.
void warn_of_repeated(std::span<const std::string> overrides);

// The options of a command, a line each.
std::string describe(std::span<const Option> options);

// May be given once.
Option text_option(const char* name, const char* value_name, std::optional<std::string>& out,
                   const char* help);
Option flag(const char* name, bool& out, const char* help);
// Throws ConfigError where an option that must be given was not.
const std::string& required(const std::optional<std::string>& value, const char* what);

// Values of options. Throw ConfigError that names the option.
int64_t integer_value(const std::string& option, const std::string& text);
double number_value(const std::string& option, const std::string& text);

}  // namespace mstrain
