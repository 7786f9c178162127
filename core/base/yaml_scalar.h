// How plain YAML scalars are understood (YAML 1.2 core schema), shared by the reader and the printer of core/base/yaml.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mstrain::yaml_scalar {

std::optional<int64_t> parse_int(std::string_view text);
// Also where it is written as 1e9 or 4096.0.
std::optional<int64_t> parse_whole(std::string_view text);
std::optional<double> parse_double(std::string_view text);  // integers and floats, .inf, .nan
std::optional<bool> parse_bool(std::string_view text);
std::string format_double(double value);

// A plain scalar of this text would read back as the same string.
bool is_plain_string(std::string_view text);
std::string quote(std::string_view text);

}  // namespace mstrain::yaml_scalar
