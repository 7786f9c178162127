// Errors of every room. Libraries throw; only the launcher turns an error into an exit status.
//
// A message is written for the person who made the mistake: one line that says where, what was found, what was
// expected and the nearest valid choice. Details may follow on further lines.
#pragma once

#include <fmt/core.h>

#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace mstrain {

// A wrong use of the library, or a failure while running (exit status 1).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

// The command line or the configuration is wrong (exit status 2). Messages start with `file:line: key.path:`.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// The plan does not fit the machine, or is impossible (exit status 3).
class PlanError : public Error {
 public:
  using Error::Error;
};

// A file or directory could not be read or written, or holds something else than expected (exit status 1; 2 where a file
// is missing). Messages start with the path. `error_number` is the errno of the failed call, 0 where the content is at fault.
class IoError : public Error {
 public:
  explicit IoError(const std::string& message, int error_number = 0)
      : Error(message), error_number_(error_number) {}
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

using SourceLocation = std::source_location;

// "suites/transformer/gpt/model.cc:41", relative to the source tree where the file lies in it.
std::string to_string(const SourceLocation& where);

// Throws Error(fmt::format(...)).
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error(fmt::format(...)) unless `condition` holds.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]] {
    throw Error(fmt::format(format, std::forward<Args>(args)...));
  }
}

// The element of `choices` that is nearest to `word` by edit distance; empty where none is near enough to be meant.
std::string nearest(std::string_view word, std::span<const std::string> choices);

// "; did you mean X?" or the empty string: the usual tail of an error about a name.
std::string did_you_mean(std::string_view word, std::span<const std::string> choices);

}  // namespace mstrain
