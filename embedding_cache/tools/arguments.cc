#include "embedding_cache/tools/arguments.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"

namespace mstrain::embedding_cache {

Arguments::Arguments(int argc, char** argv, const std::vector<std::string>& options,
                     const std::vector<std::string>& switches) {
  const auto contains = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      words_.push_back(argument);
      continue;
    }
    if (contains(switches, argument)) {
      values_[argument] = "";
      continue;
    }
    if (!contains(options, argument)) {
      std::vector<std::string> all = options;
      all.insert(all.end(), switches.begin(), switches.end());
      throw ConfigError(fmt::format("{}: unknown option{}", argument, did_you_mean(argument, all)));
    }
    if (i + 1 == argc) {
      throw ConfigError(fmt::format("{}: needs a value", argument));
    }
    values_[argument] = argv[++i];
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

uint64_t Arguments::number(const std::string& name, uint64_t otherwise) const {
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
  return value;
}

double Arguments::real(const std::string& name, double otherwise) const {
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
  return value;
}

}  // namespace mstrain::embedding_cache
