// Reading and writing of single values: the functions that the templates of config_codec.h forward to.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/config.h"
#include "core/base/config_check.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/yaml_scalar.h"

namespace mstrain {
namespace {

std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? std::to_string(static_cast<int64_t>(value))
             : yaml_scalar::format_double(value);
}

std::string with_bounds(std::string type, const ConfigRule& rule) {
  if (rule.min) {
    type += fmt::format(" {} {}", rule.min_open ? ">" : ">=", number_text(*rule.min));
  }
  if (rule.max) {
    type += fmt::format("{} {} {}", rule.min ? " and" : "",
                        rule.max_open ? "<" : "<=", number_text(*rule.max));
  }
  return type;
}

}  // namespace

bool in_bounds(double value, const ConfigRule& rule) {
  if (rule.min && !(rule.min_open ? value > *rule.min : value >= *rule.min)) {
    return false;
  }
  if (rule.max && !(rule.max_open ? value < *rule.max : value <= *rule.max)) {
    return false;
  }
  return std::isfinite(value) || (std::isinf(value) && (rule.max == value || rule.min == value));
}

namespace config_detail {

std::string int_type(const ConfigRule& rule) { return with_bounds("an integer", rule); }
std::string double_type(const ConfigRule& rule) { return with_bounds("a number", rule); }
std::string string_type(const ConfigRule& rule) {
  if (rule.names.empty()) {
    return "text";
  }
  std::string out = "one of ";
  for (const std::string& name : rule.names) {
    out += (&name == &rule.names.front() ? "" : ", ") + name;
  }
  return out;
}

bool read_bool(const ConfigAt& at) {
  const auto value =
      at.node.is_scalar() && !at.node.quoted ? yaml_scalar::parse_bool(at.node.text) : std::nullopt;
  if (!value) {
    at.fail_expected("true or false");
  }
  return *value;
}

int64_t read_int(const ConfigAt& at, int64_t low, int64_t high) {
  const bool is_plain = at.node.is_scalar() && !at.node.quoted;
  const auto value = is_plain ? yaml_scalar::parse_whole(at.node.text) : std::nullopt;
  const auto number = is_plain ? yaml_scalar::parse_double(at.node.text) : std::nullopt;
  // What the rule allows and 64 bits, or the member's, do not hold.
  if (number && in_bounds(*number, at.rule) && *number == std::floor(*number) &&
      !(value && *value >= low && *value <= high)) {
    const double least = at.rule.min.value_or(static_cast<double>(low));
    const double most = at.rule.max.value_or(static_cast<double>(high));
    low = least > static_cast<double>(low) ? static_cast<int64_t>(least) + at.rule.min_open : low;
    high = most < static_cast<double>(high) ? static_cast<int64_t>(most) - at.rule.max_open : high;
    at.fail_expected(fmt::format("an integer from {} to {}", low, high));
  }
  if (!value || !in_bounds(static_cast<double>(*value), at.rule)) {
    at.fail_expected(int_type(at.rule));
  }
  return *value;
}

double read_double(const ConfigAt& at) {
  const auto value = at.node.is_scalar() && !at.node.quoted
                         ? yaml_scalar::parse_double(at.node.text)
                         : std::nullopt;
  if (!value || !in_bounds(*value, at.rule)) {
    at.fail_expected(double_type(at.rule));
  }
  return *value;
}

float read_float(const ConfigAt& at) {
  const double value = read_double(at);
  const auto out = static_cast<float>(value);
  if (std::isfinite(out) != std::isfinite(value) || (out == 0) != (value == 0)) {
    at.fail_expected(double_type(at.rule) + " that a float of 32 bits holds");
  }
  return out;
}

YamlNode write_float(float value) {
  char text[32];
  const char* const end = std::to_chars(text, text + sizeof text, value).ptr;
  double shortest = 0;
  std::from_chars(text, end, shortest);
  return YamlNode::number(static_cast<float>(shortest) == value ? shortest : double{value});
}

std::string read_string(const ConfigAt& at) {
  if (!at.rule.names.empty()) {
    return at.rule.names[read_name(at)];
  }
  if (!at.node.is_scalar()) {
    at.fail_expected("text");
  }
  return at.rule.is_path ? expand_home(at.node.text) : at.node.text;
}

size_t read_name(const ConfigAt& at) {
  const auto& names = at.rule.names;
  check(!names.empty(), "{}: its declaration lacks rule::one_of", at.path);
  if (!at.node.is_scalar()) {
    at.fail_expected(string_type(at.rule));
  }
  const auto found = std::find(names.begin(), names.end(), at.node.text);
  if (found == names.end()) {
    yaml_fail(at.node, at.path,
              fmt::format("expected {}{}, found {}{}", at.otherwise, string_type(at.rule),
                          describe(at.node), did_you_mean(at.node.text, names)));
  }
  return static_cast<size_t>(found - names.begin());
}

YamlNode write_name(const ConfigRule& rule, size_t index) {
  check(index < rule.names.size(), "a configuration enum holds {}, but names {} values", index,
        rule.names.size());
  return YamlNode::string(rule.names[index]);
}

bool is_word(const YamlNode& node, std::string_view word) {
  return node.is_scalar() && !node.quoted && node.text == word;
}

std::vector<WeightedPath> read_paths(const ConfigAt& at) {
  const std::string expected = ConfigCodec<std::vector<WeightedPath>>::type(at.rule);
  if (at.node.is_scalar()) {
    return {{at.node.text}};
  }
  if (!at.node.is_sequence()) {
    at.fail_expected(expected);
  }
  std::vector<WeightedPath> out;
  for (const YamlNode& child : at.node.children) {
    WeightedPath item;
    const ConfigAt inner = at.with(child, fmt::format("{}[{}]", at.path, out.size()));
    if (child.is_scalar()) {
      item.path = child.text;
    } else if (child.is_map()) {
      ConfigFields fields;
      fields("path", item.path, "file, folder or pattern", rule::required());
      fields("weight", item.weight, "share of the samples, relative to the others",
             rule::positive());
      read_section(inner, fields);
    } else {
      inner.fail_expected("a path or {path, weight}");
    }
    out.push_back(std::move(item));
  }
  return out;
}

YamlNode write_paths(const std::vector<WeightedPath>& paths) {
  if (paths.size() == 1 && paths[0].weight == 1.0) {
    return YamlNode::string(paths[0].path);
  }
  const bool weighted = std::any_of(paths.begin(), paths.end(),
                                    [](const WeightedPath& item) { return item.weight != 1.0; });
  YamlNode node = YamlNode::sequence();
  for (const WeightedPath& item : paths) {
    if (weighted) {
      YamlNode& map = node.children.emplace_back(YamlNode::map());
      map.add("path", YamlNode::string(item.path));
      map.add("weight", YamlNode::number(item.weight));
    } else {
      node.children.push_back(YamlNode::string(item.path));
    }
  }
  return node;
}

}  // namespace config_detail
}  // namespace mstrain
