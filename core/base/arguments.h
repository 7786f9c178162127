// One option of a command line at a time, for programs that keep their own loop over the arguments. (CLI11 in its place
// guesses no nearest name, wants `key.path=value` taken out first and would enter both libraries' packages, for 40 lines.)
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace mstrain {

struct Option {
  std::string name;                             // "--seed"
  std::string value_name;                       // "S"; empty for a flag
  std::function<void(const std::string&)> set;  // a flag gets ""
  std::string help{};                           // what it is for, where a program lists its options
};

// Calls the setter of the option that stands at arguments[at], as "--seed 3" or "--seed=3", and returns the index of the last
// argument that belongs to it. Throws ConfigError for an unknown option, with the nearest known one and a pointer to
// `program --help`, and for a value that is missing or not wanted.
size_t take_option(std::span<const std::string> arguments, size_t at,
                   std::span<const Option> options, std::string_view program);

}  // namespace mstrain
