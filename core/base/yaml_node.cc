// YamlNode itself, typed reading, and the printers; no yaml-cpp here.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/yaml.h"
#include "core/base/yaml_scalar.h"

namespace mstrain {
namespace {

constexpr size_t kWidth = 100;

bool is_text(const YamlNode& scalar) {
  return scalar.quoted ||
         !(yaml_scalar::parse_double(scalar.text) || yaml_scalar::parse_bool(scalar.text));
}

std::string scalar_text(const YamlNode& node) {
  const bool plain = !is_text(node) || (!node.quoted && yaml_scalar::is_plain_string(node.text));
  return plain ? node.text : yaml_scalar::quote(node.text);
}

std::string key_text(const std::string& key) {
  return yaml_scalar::is_plain_string(key) && key.find(':') == std::string::npos
             ? key
             : yaml_scalar::quote(key);
}

void append_flow(const YamlNode& node, std::string& out) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: out += "null"; return;
    case YamlNode::Kind::kScalar: out += scalar_text(node); return;
    case YamlNode::Kind::kSequence:
    case YamlNode::Kind::kMap: break;
  }
  out += node.is_map() ? '{' : '[';
  for (const YamlNode& child : node.children) {
    if (&child != &node.children.front()) {
      out += ", ";
    }
    if (node.is_map()) {
      out += key_text(child.key) + ": ";
    }
    append_flow(child, out);
  }
  out += node.is_map() ? '}' : ']';
}

void append_block(const YamlNode& node, size_t indent, std::string& out);

// The value after "key:" or "-"; `column` is where it would start on this line.
void append_value(const YamlNode& node, size_t indent, size_t column, std::string& out) {
  const std::string flow = to_flow(node);
  if (node.children.empty() || column + flow.size() <= kWidth) {
    out += ' ' + flow + '\n';
  } else {
    out += '\n';
    append_block(node, indent, out);
  }
}

void append_block(const YamlNode& node, size_t indent, std::string& out) {
  for (const YamlNode& child : node.children) {
    const std::string lead =
        std::string(indent, ' ') + (node.is_map() ? key_text(child.key) + ':' : std::string("-"));
    out += lead;
    append_value(child, indent + 2, lead.size() + 1, out);
  }
}

}  // namespace

YamlNode YamlNode::of_kind(Kind kind) {
  YamlNode node;
  node.kind = kind;
  return node;
}
YamlNode YamlNode::scalar(std::string plain_text) {
  YamlNode node = of_kind(Kind::kScalar);
  node.text = std::move(plain_text);
  return node;
}
YamlNode YamlNode::string(std::string_view value) {
  YamlNode node = scalar(std::string(value));
  node.quoted = !yaml_scalar::is_plain_string(value);
  return node;
}
YamlNode YamlNode::integer(int64_t value) { return scalar(std::to_string(value)); }
YamlNode YamlNode::number(double value) { return scalar(yaml_scalar::format_double(value)); }
YamlNode YamlNode::boolean(bool value) { return scalar(value ? "true" : "false"); }

const YamlNode* YamlNode::find(std::string_view child) const {
  if (kind != Kind::kMap) {
    return nullptr;
  }
  const auto it = std::find_if(children.begin(), children.end(),
                               [&](const YamlNode& node) { return node.key == child; });
  return it == children.end() ? nullptr : &*it;
}
YamlNode* YamlNode::find(std::string_view child) {
  return const_cast<YamlNode*>(std::as_const(*this).find(child));
}
YamlNode& YamlNode::add(std::string_view child, YamlNode value) {
  check(is_map() && find(child) == nullptr, "YamlNode::add: {} exists, or the node is no map",
        child);
  value.key = child;
  return children.emplace_back(std::move(value));
}

std::string YamlNode::where() const { return line > 0 ? fmt::format("{}:{}", file, line) : file; }

bool YamlNode::same_value(const YamlNode& other) const {
  if (kind != other.kind || text != other.text || children.size() != other.children.size()) {
    return false;
  }
  // "12" and 12 differ although their text does not.
  if (is_scalar() && is_text(*this) != is_text(other)) {
    return false;
  }
  for (size_t i = 0; i < children.size(); ++i) {
    if ((is_map() && children[i].key != other.children[i].key) ||
        !children[i].same_value(other.children[i])) {
      return false;
    }
  }
  return true;
}

void yaml_fail(const YamlNode& node, std::string_view name, std::string_view message) {
  throw ConfigError(fmt::format("{}{}{}{}{}", node.where(), node.file.empty() ? "" : ": ", name,
                                name.empty() ? "" : ": ", message));
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return "null";
    case YamlNode::Kind::kScalar: {
      constexpr size_t kShown = 60;
      if (node.quoted && !is_text(YamlNode::scalar(node.text))) {
        return yaml_scalar::quote(node.text) + " in quotes, which make it text";
      }
      return node.text.size() <= kShown ? yaml_scalar::quote(node.text)
                                        : yaml_scalar::quote(node.text.substr(0, kShown)) + "...";
    }
    case YamlNode::Kind::kSequence: return "a list";
    case YamlNode::Kind::kMap: return "a map";
  }
  __builtin_unreachable();
}

int64_t as_int(const YamlNode& node, std::string_view name) {
  if (node.is_scalar() && !node.quoted) {
    if (const auto value = yaml_scalar::parse_int(node.text)) {
      return *value;
    }
  }
  yaml_fail(node, name, "expected an integer, found " + describe(node));
}
double as_double(const YamlNode& node, std::string_view name) {
  if (node.is_scalar() && !node.quoted) {
    if (const auto value = yaml_scalar::parse_double(node.text)) {
      return *value;
    }
  }
  yaml_fail(node, name, "expected a number, found " + describe(node));
}
bool as_bool(const YamlNode& node, std::string_view name) {
  if (node.is_scalar() && !node.quoted) {
    if (const auto value = yaml_scalar::parse_bool(node.text)) {
      return *value;
    }
  }
  yaml_fail(node, name, "expected true or false, found " + describe(node));
}
const std::string& as_string(const YamlNode& node, std::string_view name) {
  if (!node.is_scalar()) {
    yaml_fail(node, name, "expected text, found " + describe(node));
  }
  return node.text;
}

std::string to_flow(const YamlNode& node) {
  std::string out;
  append_flow(node, out);
  return out;
}

std::string to_yaml(const YamlNode& node) {
  std::string out;
  if (node.children.empty()) {
    return to_flow(node) + '\n';
  }
  append_block(node, 0, out);
  return out;
}

nlohmann::ordered_json to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return nullptr;
    case YamlNode::Kind::kScalar: {
      if (!node.quoted) {
        if (const auto value = yaml_scalar::parse_bool(node.text)) {
          return *value;
        }
        if (const auto value = yaml_scalar::parse_int(node.text)) {
          return *value;
        }
        const auto value = yaml_scalar::parse_double(node.text);
        if (value && std::abs(*value) <= std::numeric_limits<double>::max()) {
          return *value;
        }
      }
      return node.text;
    }
    case YamlNode::Kind::kSequence: {
      auto out = nlohmann::ordered_json::array();
      for (const YamlNode& child : node.children) {
        out.push_back(to_json(child));
      }
      return out;
    }
    case YamlNode::Kind::kMap: {
      auto out = nlohmann::ordered_json::object();
      for (const YamlNode& child : node.children) {
        out[child.key] = to_json(child);
      }
      return out;
    }
  }
  __builtin_unreachable();
}

}  // namespace mstrain
