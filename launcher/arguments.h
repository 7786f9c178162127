// Command lines: options with values, flags, and what remains.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/arguments.h"

namespace mstrain::launcher {

// Calls the options' setters in the order of `arguments` ("--seed 3" or "--seed=3") and returns the rest; what follows
// "--" is the rest as it is. Throws ConfigError for an unknown option, with the nearest known one, and for a value that
// is missing or not wanted.
std::vector<std::string> parse_arguments(std::span<const std::string> arguments,
                                         std::span<const Option> options);

// Values of options. Throw ConfigError that names the option.
int64_t integer_value(const std::string& option, const std::string& text);
double number_value(const std::string& option, const std::string& text);

}  // namespace mstrain::launcher
