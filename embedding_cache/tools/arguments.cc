#include "embedding_cache/tools/arguments.h"

#include <charconv>
#include <cmath>

#include "core/base/arguments.h"
#include "core/base/error.h"

namespace mstrain::embedding_cache {

Arguments::Arguments(int argc, char** argv, const std::vector<std::string>& options,
                     const std::vector<std::string>& switches) {
  std::vector<Option> known;
  for (const auto* names : {&options, &switches}) {
    for (const std::string& name : *names) {
      known.push_back({name, names == &options ? "a value" : "",
                       [this, name](const std::string& value) { values_[name] = value; }});
    }
  }
  const std::vector<std::string> arguments(argv, argv + argc);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("--")) {
      i = take_option(arguments, i, known, "ec_tool");
    } else {
      words_.push_back(arguments[i]);
    }
  }
}

const std::string& Arguments::word(size_t index, const char* what) const {
  if (index >= words_.size()) {
    throw ConfigError(fmt::format("{} is missing; see ec_tool --help", what));
  }
  return words_[index];
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto it = values_.find(name);
  return it == values_.end() ? otherwise : it->second;
}

uint64_t Arguments::number(const std::string& name, uint64_t otherwise, uint64_t least) const {
  const auto it = values_.find(name);
  if (it == values_.end()) {
    return otherwise;
  }
  uint64_t value = 0;
  const char* end = it->second.data() + it->second.size();
  const auto [stop, error] = std::from_chars(it->second.data(), end, value);
  if (error != std::errc() || stop != end) {
    throw ConfigError(fmt::format("{}: expected a whole number, found \"{}\"", name, it->second));
  }
  if (value < least) {
    throw ConfigError(fmt::format("{}: expected {} or more, found {}", name, least, value));
  }
  return value;
}

double Arguments::not_negative(const std::string& name, double otherwise) const {
  return finite(name, otherwise, /*is_positive=*/false);
}

double Arguments::positive(const std::string& name, double otherwise) const {
  return finite(name, otherwise, /*is_positive=*/true);
}

double Arguments::finite(const std::string& name, double otherwise, bool is_positive) const {
  const auto it = values_.find(name);
  if (it == values_.end()) {
    return otherwise;
  }
  double value = 0;
  const char* end = it->second.data() + it->second.size();
  const auto [stop, error] = std::from_chars(it->second.data(), end, value);
  if (error != std::errc() || stop != end) {
    throw ConfigError(fmt::format("{}: expected a number, found \"{}\"", name, it->second));
  }
  if (!std::isfinite(value) || (is_positive ? value <= 0 : value < 0)) {
    throw ConfigError(fmt::format("{}: expected {}, found {}", name,
                                  is_positive ? "more than 0" : "0 or more", it->second));
  }
  return value;
}

}  // namespace mstrain::embedding_cache
