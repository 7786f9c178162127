#include "core/base/config.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/yaml_scalar.h"

namespace mstrain {
namespace {

std::string child_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

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

bool in_bounds(double value, const ConfigRule& rule) {
  if (rule.min && !(rule.min_open ? value > *rule.min : value >= *rule.min)) {
    return false;
  }
  if (rule.max && !(rule.max_open ? value < *rule.max : value <= *rule.max)) {
    return false;
  }
  return std::isfinite(value) || (std::isinf(value) && (rule.max == value || rule.min == value));
}

void collect_paths(const ConfigFields& fields, const std::string& path,
                   std::vector<std::string>& out) {
  for (const ConfigFields::Entry& entry : fields.entries()) {
    const std::string full = child_path(path, entry.key);
    out.push_back(full);
    if (const auto section = entry.field->section()) {
      collect_paths(*section, full, out);
    }
  }
}

// The nearest key of this section; else keys of the same name elsewhere; else all keys of this section.
std::string suggest(const std::string& key, const std::string& path, const ConfigFields& fields,
                    const ConfigFields& root) {
  std::vector<std::string> here;
  for (const ConfigFields::Entry& entry : fields.entries()) {
    here.push_back(entry.key);
  }
  if (const std::string best = nearest(key, here); !best.empty()) {
    return fmt::format("; did you mean {}?", child_path(path, best));
  }
  std::vector<std::string> everywhere;
  collect_paths(root, "", everywhere);
  for (const std::string& candidate : everywhere) {
    if (candidate.ends_with('.' + key)) {
      return fmt::format("; did you mean {}?", candidate);
    }
  }
  std::string list;
  for (const std::string& name : here) {
    list += (list.empty() ? "" : ", ") + name;
  }
  return fmt::format("; known here: {}", list);
}

}  // namespace

ConfigRule ConfigRule::at_least(double bound) const {
  ConfigRule out = *this;
  out.min = bound;
  out.min_open = false;
  return out;
}
ConfigRule ConfigRule::above(double bound) const {
  ConfigRule out = *this;
  out.min = bound;
  out.min_open = true;
  return out;
}
ConfigRule ConfigRule::at_most(double bound) const {
  ConfigRule out = *this;
  out.max = bound;
  out.max_open = false;
  return out;
}
ConfigRule ConfigRule::below(double bound) const {
  ConfigRule out = *this;
  out.max = bound;
  out.max_open = true;
  return out;
}
ConfigRule ConfigRule::one_of(std::initializer_list<const char*> choices) const {
  ConfigRule out = *this;
  out.names.assign(choices.begin(), choices.end());
  return out;
}
ConfigRule ConfigRule::required() const {
  ConfigRule out = *this;
  out.is_required = true;
  return out;
}

void ConfigAt::fail_expected(const std::string& expected) const {
  std::string found = describe(node);
  if (node.is_sequence()) {
    found = fmt::format("a list of {}", node.children.size());
  }
  yaml_fail(node, path, fmt::format("expected {}{}, found {}", otherwise, expected, found));
}

ConfigAt ConfigAt::with(const YamlNode& child, std::string path_of_child) const {
  return {child, std::move(path_of_child), rule, root, ""};
}

void ConfigFields::add(const char* key, const char* doc, const ConfigRule& rule,
                       std::unique_ptr<ConfigField> field) {
  for (const Entry& entry : entries_) {
    check(entry.key != key, "configuration key {} is declared twice", key);
  }
  entries_.push_back({key, doc, rule, std::move(field)});
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
  const auto value =
      at.node.is_scalar() && !at.node.quoted ? yaml_scalar::parse_int(at.node.text) : std::nullopt;
  if (!value || !in_bounds(static_cast<double>(*value), at.rule)) {
    at.fail_expected(int_type(at.rule));
  }
  if (*value < low || *value > high) {
    at.fail_expected(fmt::format("an integer from {} to {}", low, high));
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

std::string read_string(const ConfigAt& at) {
  if (!at.rule.names.empty()) {
    return at.rule.names[read_name(at)];
  }
  if (!at.node.is_scalar()) {
    at.fail_expected("text");
  }
  return at.node.text;
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

// A null section is an empty one: `model:` with nothing below it.
void read_section(const ConfigAt& at, const ConfigFields& fields) {
  if (!at.node.is_map() && !at.node.is_null()) {
    at.fail_expected("a section (a map of keys)");
  }
  for (const YamlNode& child : at.node.children) {
    const auto& entries = fields.entries();
    const auto entry = std::find_if(
        entries.begin(), entries.end(),
        [&](const ConfigFields::Entry& candidate) { return candidate.key == child.key; });
    const std::string path = child_path(at.path, child.key);
    if (entry == entries.end()) {
      yaml_fail(child, path, "unknown key" + suggest(child.key, at.path, fields, at.root));
    }
    entry->field->read({child, path, entry->rule, at.root, ""});
  }
  for (const ConfigFields::Entry& entry : fields.entries()) {
    if (entry.rule.is_required && at.node.find(entry.key) == nullptr) {
      yaml_fail(at.node, child_path(at.path, entry.key),
                fmt::format("required key is missing; expected {}", entry.field->type(entry.rule)));
    }
    // Required keys of a section that is absent altogether.
    if (const auto section = entry.field->section();
        section && at.node.find(entry.key) == nullptr) {
      YamlNode absent;
      absent.file = at.node.file;
      absent.line = at.node.line;
      read_section({absent, child_path(at.path, entry.key), entry.rule, at.root, ""}, *section);
    }
  }
}

}  // namespace config_detail

void read_config_fields(const YamlNode& tree, const ConfigFields& fields) {
  YamlNode top = tree;
  top.line = 0;  // what is missing is missing from the file, not from its first line
  const ConfigRule no_rule;
  config_detail::read_section({top, "", no_rule, fields, ""}, fields);
}

YamlNode write_config_fields(const ConfigFields& fields) {
  YamlNode node = YamlNode::map();
  for (const ConfigFields::Entry& entry : fields.entries()) {
    node.add(entry.key, entry.field->write(entry.rule));
  }
  return node;
}

std::vector<ConfigKeyDoc> document_config_fields(const ConfigFields& fields) {
  std::vector<ConfigKeyDoc> out;
  for (const ConfigFields::Entry& entry : fields.entries()) {
    if (const auto section = entry.field->section()) {
      for (ConfigKeyDoc& doc : document_config_fields(*section)) {
        doc.path = child_path(entry.key, doc.path);
        out.push_back(std::move(doc));
      }
    } else {
      out.push_back({entry.key, entry.field->type(entry.rule),
                     to_flow(entry.field->write(entry.rule)), entry.doc});
    }
  }
  return out;
}

}  // namespace mstrain
