// YAML read into a plain tree that remembers where each value stood, so that every later error can name file and line.
// The subset that configurations need: one document; maps with unique plain keys, lists, scalars, null; block and flow
// style; anchors, aliases and `<<: *base`, which stand for copies. Tags and further documents are errors. Depth, size and
// count of nodes, copies included, are limited.
// Scalars follow the YAML 1.2 core schema: true, false, null, ~, integers, floats, .inf, .nan; anything else is a string.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mstrain {

struct YamlNode {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;             // a quoted scalar is a string whatever it spells
  std::string text;                // of a scalar
  std::string key;                 // of a map's child
  std::vector<YamlNode> children;  // in the order of the file
  std::string file;                // as given to the parser; empty for a node made by code
  int line = 0;                    // from 1, where the key stands for a map's child; 0: no line
  int column = 0;
  bool takes_back = false;  // of a null that a layer lays over others: see read_config()

  static YamlNode scalar(std::string plain_text);
  static YamlNode string(std::string_view value);  // quoted only where it must be
  static YamlNode integer(int64_t value);
  static YamlNode number(double value);  // shortest text that reads back as the same double
  static YamlNode boolean(bool value);
  static YamlNode map() { return of_kind(Kind::kMap); }
  static YamlNode sequence() { return of_kind(Kind::kSequence); }

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_sequence() const { return kind == Kind::kSequence; }
  bool is_map() const { return kind == Kind::kMap; }

  // The child of a map by key, or null.
  const YamlNode* find(std::string_view child) const;
  YamlNode* find(std::string_view child);
  // Appends to a map; the key must be new.
  YamlNode& add(std::string_view child, YamlNode value);

  // "configs/my.yaml:14", or the file alone where there is no line.
  std::string where() const;

  // Same values in the same order; where they stood and how they were quoted does not count.
  bool same_value(const YamlNode& other) const;

 private:
  static YamlNode of_kind(Kind kind);
};

// Throws ConfigError that starts with `file:line:`. An empty text is a null that knows its file.
YamlNode parse_yaml(std::string_view text, const std::string& file);
YamlNode load_yaml(const std::string& path);  // IoError if it cannot be read

// Typed reading. `name` is what the message calls the value: `file:line: name: expected an integer, found "abc"`.
int64_t as_int(const YamlNode& node, std::string_view name);
double as_double(const YamlNode& node, std::string_view name);
bool as_bool(const YamlNode& node, std::string_view name);
const std::string& as_string(const YamlNode& node, std::string_view name);

// Throws ConfigError("<where>: <name>: <message>").
[[noreturn]] void yaml_fail(const YamlNode& node, std::string_view name, std::string_view message);
// What an error says was found: `"abc"`, `"8" in quotes, which make it text`, `a list`, `a map`, `null`.
std::string describe(const YamlNode& node);

// Text that parse_yaml turns back into the same values. Maps at the top in block style, what is inside in flow style
// where it fits into 100 columns.
std::string to_yaml(const YamlNode& node);
std::string to_flow(const YamlNode& node);             // one line
nlohmann::ordered_json to_json(const YamlNode& node);  // not finite numbers become strings

}  // namespace mstrain
