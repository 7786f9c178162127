// From files and the command line to one layered tree, before any struct is involved.
#include <algorithm>
#include <utility>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace mstrain {
namespace {

// Of `map`, the child that the first parts of "a.b.c" name, and how many letters those are: a key may hold dots itself, as
// those of sweep.keys do, and the longest is meant.
template <class Node>
std::pair<Node*, size_t> child_on_path(Node& map, std::string_view path) {
  size_t end = path.size();
  while (true) {
    if (Node* const child = map.find(path.substr(0, end))) {
      return {child, end};
    }
    if (end = path.rfind('.', end - 1); end == std::string_view::npos || end == 0) {
      return {nullptr, path.find('.')};
    }
  }
}

// Maps merge key by key; anything else in `over` replaces what was below. Every node keeps the place it came from.
void lay_over(YamlNode& below, YamlNode over) {
  if (!below.is_map() || !over.is_map()) {
    below = std::move(over);
    return;
  }
  for (YamlNode& child : over.children) {
    if (YamlNode* existing = below.find(child.key)) {
      lay_over(*existing, std::move(child));
    } else {
      below.children.push_back(std::move(child));
    }
  }
  below.file = std::move(over.file);
  below.line = over.line;
  below.column = over.column;
}

// Of what is laid over another layer: its nulls may take keys back.
void let_take_back(YamlNode& node) {
  node.takes_back = node.is_null();
  for (YamlNode& child : node.children) {
    let_take_back(child);
  }
}

YamlNode load_layer(const std::string& path, std::vector<std::string>& chain) {
  YamlNode tree = load_yaml(path);
  if (tree.is_null()) {
    tree.kind = YamlNode::Kind::kMap;
  }
  if (!tree.is_map()) {
    yaml_fail(tree, "", "expected sections such as `model:`, found " + describe(tree));
  }
  const auto extends = std::find_if(tree.children.begin(), tree.children.end(),
                                    [](const YamlNode& child) { return child.key == "extends"; });
  if (extends == tree.children.end()) {
    return tree;
  }
  const YamlNode link = std::move(*extends);
  tree.children.erase(extends);
  const std::string base = join_path(parent_path(path), as_string(link, "extends"));
  if (std::find(chain.begin(), chain.end(), base) != chain.end()) {
    yaml_fail(link, "extends", fmt::format("{} extends itself through this file", base));
  }
  constexpr size_t kLongestChain = 16;
  if (chain.size() == kLongestChain) {
    yaml_fail(link, "extends", fmt::format("more than {} files in a chain", kLongestChain));
  }
  chain.push_back(base);
  YamlNode below;
  try {
    below = load_layer(base, chain);
  } catch (const IoError& error) {
    yaml_fail(link, "extends", error.what());
  }
  let_take_back(tree);
  lay_over(below, std::move(tree));
  return below;
}

void forget_lines(YamlNode& node) {
  node.line = 0;
  for (YamlNode& child : node.children) {
    forget_lines(child);
  }
}

// A section or `type` that a null takes back is as if nothing had been said of it: neither has null for a value.
void forget_taken_back(YamlNode& node, bool is_top) {
  std::erase_if(node.children, [&](YamlNode& child) {
    if (child.is_null()) {
      return child.takes_back && (is_top || child.key == "type");
    }
    const bool had_keys = !child.children.empty();
    forget_taken_back(child, /*is_top=*/false);
    return had_keys && child.is_map() && child.children.empty();
  });
}

constexpr const char* kCommandLine = "command line";

// "a.b.c", no part of which is empty.
bool names_a_key(std::string_view path) {
  return !path.empty() && !path.starts_with('.') && !path.ends_with('.') &&
         path.find("..") == std::string_view::npos;
}

void apply_override(YamlNode& tree, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string path = equals == std::string::npos ? "" : text.substr(0, equals);
  if (!names_a_key(path)) {
    throw ConfigError(fmt::format("{}: expected key.path=value, found \"{}\"", kCommandLine, text));
  }
  YamlNode value;
  try {
    value = parse_yaml(text.substr(equals + 1), kCommandLine);
  } catch (const ConfigError&) {
    throw ConfigError(fmt::format("{}: {}: \"{}\" is no YAML value; quote it if it is text",
                                  kCommandLine, path, text.substr(equals + 1)));
  }
  forget_lines(value);
  value.file = kCommandLine;
  set_config(tree, path, std::move(value));
}

void flatten(const YamlNode& node, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& out) {
  if (!node.is_map() || node.children.empty()) {
    out.emplace_back(path, to_flow(node));
    return;
  }
  for (const YamlNode& child : node.children) {
    flatten(child, path.empty() ? child.key : path + '.' + child.key, out);
  }
}

}  // namespace

void set_config(YamlNode& tree, std::string_view path, YamlNode value) {
  if (!names_a_key(path)) {
    throw ConfigError(fmt::format("{}: expected key.path, found \"{}\"", value.where(), path));
  }
  YamlNode* at = &tree;
  for (std::string_view rest = path;;) {
    if (at->is_null()) {
      at->kind = YamlNode::Kind::kMap;
    }
    if (!at->is_map()) {
      const std::string_view above = path.substr(0, path.size() - rest.size() - 1);
      throw ConfigError(fmt::format("{}: {}: {} is no section but {}", value.where(), path, above,
                                    describe(*at)));
    }
    auto [child, length] = child_on_path(*at, rest);
    const std::string_view key = rest.substr(0, length);
    if (child == nullptr) {
      YamlNode empty;
      empty.file = value.file;
      child = &at->add(key, std::move(empty));
    }
    if (key.size() == rest.size()) {
      value.key = key;
      let_take_back(value);
      lay_over(*child, std::move(value));
      return;
    }
    at = child;
    rest.remove_prefix(length + 1);
  }
}

YamlNode load_config(const std::string& path, std::span<const std::string> overrides) {
  std::vector<std::string> chain{path};
  YamlNode tree;
  try {
    tree = load_layer(path, chain);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
  apply_overrides(tree, overrides);
  return tree;
}

void apply_overrides(YamlNode& tree, std::span<const std::string> overrides) {
  for (const std::string& text : overrides) {
    apply_override(tree, text);
  }
  forget_taken_back(tree, /*is_top=*/true);
}

const YamlNode* find_config(const YamlNode& tree, std::string_view path) {
  const YamlNode* node = &tree;
  while (true) {
    const auto [child, length] = child_on_path(*node, path);
    if (child == nullptr || length >= path.size()) {
      return child;
    }
    node = child;
    path.remove_prefix(length + 1);
  }
}

std::string config_where(const YamlNode& tree, std::string_view path) {
  const YamlNode* const node = find_config(tree, path);
  const std::string where = node != nullptr && !node->file.empty() ? node->where() : tree.file;
  return where.empty() ? std::string(path) : fmt::format("{}: {}", where, path);
}

void config_fail(const YamlNode& tree, std::string_view path, std::string_view message) {
  throw ConfigError(fmt::format("{}: {}", config_where(tree, path), message));
}

std::vector<std::pair<std::string, std::string>> flatten_config(const YamlNode& tree) {
  std::vector<std::pair<std::string, std::string>> out;
  flatten(tree, "", out);
  return out;
}

}  // namespace mstrain
