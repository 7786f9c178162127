#include "core/base/yaml_scalar.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace mstrain::yaml_scalar {
namespace {

std::string_view without_plus(std::string_view text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

// Words that YAML 1.1 readers take for booleans or null; quoted so that they read as strings everywhere.
bool is_reserved_word(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  });
  return lower == "null" || lower == "~" || lower == "true" || lower == "false" || lower == "yes" ||
         lower == "on" || lower == "off" || lower == "no";
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text) {
  text = without_plus(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> parse_whole(std::string_view text) {
  constexpr double kEnd = 9223372036854775808.0;
  if (text.find_first_of(".eE") == std::string_view::npos) {
    return parse_int(text);
  }
  const std::optional<double> value = parse_double(text);
  if (!value || *value != std::floor(*value) || *value < -kEnd || *value >= kEnd) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*value);
}

std::optional<double> parse_double(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string_view magnitude = negative ? text.substr(1) : without_plus(text);
  if (magnitude == ".inf" || magnitude == ".Inf" || magnitude == ".INF") {
    const double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  // from_chars also takes "inf", "nan" and hexadecimal floats.
  if (magnitude.empty() || !(magnitude[0] == '.' || (magnitude[0] >= '0' && magnitude[0] <= '9'))) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(magnitude.data(), magnitude.data() + magnitude.size(), value);
  if (error != std::errc() || end != magnitude.data() + magnitude.size()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") {
    return true;
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    return false;
  }
  return std::nullopt;
}

// Always with a point, and the exponent without zeros in front ("1.0e-8"): YAML 1.1 readers take "1e-08" for a string.
std::string format_double(double value) {
  if (std::isnan(value)) {
    return ".nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-.inf" : ".inf";
  }
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string_view text(buffer, static_cast<size_t>(result.ptr - buffer));
  const size_t e = text.find('e');
  std::string mantissa(text.substr(0, e));
  if (mantissa.find('.') == std::string::npos) {
    mantissa += ".0";
  }
  if (e == std::string_view::npos) {
    return mantissa;
  }
  text.remove_prefix(e + 1);
  const char sign = text[0];
  text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  return fmt::format("{}e{}{}", mantissa, sign, text);
}

bool is_plain_string(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || is_reserved_word(text) ||
      parse_double(text) || text == "---" || text == "...") {
    return false;
  }
  constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>'\"%@`";
  if (kIndicators.find(text.front()) != std::string_view::npos) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c >= 0x7f ||
        std::string_view(",[]{}#?|\"'`").find(text[i]) != std::string_view::npos ||
        (c == ':' && (i + 1 == text.size() || text[i + 1] == ' '))) {
      return false;
    }
  }
  return true;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace mstrain::yaml_scalar
