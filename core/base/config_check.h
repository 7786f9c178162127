// The rules of a configuration (config.h) for one that a program made: what read_config() read has been looked at.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/base/config.h"
#include "core/base/error.h"

namespace mstrain {

// Whether a number fulfils the bounds.
bool in_bounds(double value, const ConfigRule& rule);

// What fields() is called with by check_config().
struct ConfigNumbers {
  std::string_view section;

  template <class T>
  void operator()(const char* key, const T& value, const char* /*doc*/,
                  const ConfigRule& rule = {}) {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      if (!in_bounds(static_cast<double>(value), rule)) {
        throw ConfigError(fmt::format("{}.{}: expected {}, found {}", section, key,
                                      ConfigCodec<T>::type(rule), value));
      }
    }
  }
};

// Throws ConfigError "<section>.<key>: expected <type>, found <value>" where a number that is a key of its own is not as its rule says.
template <ConfigSection T>
void check_config(const T& config, std::string_view section) {
  ConfigNumbers numbers{section};
  const_cast<T&>(config).fields(numbers);  // declares members
}

}  // namespace mstrain
