// Configuration: one declaration per key. A section is a struct whose fields() names each member once; reading from YAML
// with errors that name file, line and key, the resolved listing, comparison and help all follow from that.
//
//   struct OptimizerConfig {
//     enum class Type { kSgd, kAdamW };
//     Type type = Type::kAdamW;                   // the initialiser is the default
//     double lr = 1e-3;
//     std::array<double, 2> betas{0.9, 0.999};
//     std::optional<double> clip_grad = 1.0;      // `null` in YAML
//     AutoOr<int64_t> micro;                      // the word `auto`, or an integer
//     std::vector<WeightedPath> train;            // a path, a list of paths, or a list of {path, weight}
//     DropoutConfig dropout;                      // a nested section: any struct with fields()
//
//     template <class V>
//     void fields(V& v) {
//       v("type", type, "update rule", rule::one_of({"sgd", "adamw"}));   // enums: names in the order of the values
//       v("lr", lr, "peak learning rate", rule::positive());
//       v("betas", betas, "decay of the two moments", rule::at_least(0).below(1));   // of a list: for each element
//       v("clip_grad", clip_grad, "largest global gradient norm; null: no clipping", rule::positive());
//       v("micro", micro, "samples per micro-batch", rule::at_least(1));
//       v("train", train, "training data", rule::required());
//       v("dropout", dropout, "probabilities");
//     }
//   };
//   struct RunFile { OptimizerConfig optimizer; ...; template <class V> void fields(V& v) { v("optimizer", optimizer, ""); } };
//
//   YamlNode tree = load_config("configs/my.yaml", {"optimizer.lr=3e-4"});   // file, its `extends`, then overrides
//   RunFile config;
//   read_config(tree, config);
//   if (config.model.hidden_size % config.model.heads != 0)                  // what one key alone cannot tell
//     config_fail(tree, "model.heads", "must divide model.hidden_size");
//   std::string resolved = to_yaml(write_config(config));                    // reads back as the same configuration
//
// Members: bool, integers, float, double, std::string, enums, std::optional, AutoOr/AllOr, std::array, std::vector, sections,
// WeightedPath lists. Another type gets a specialisation of ConfigCodec. Every error is a ConfigError.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/yaml.h"

namespace mstrain {

// What a value must fulfil. Numbers that are not finite never do, unless a bound is infinite.
struct ConfigRule {
  std::optional<double> min;
  std::optional<double> max;
  bool min_open = false;  // greater than `min` instead of at least
  bool max_open = false;
  std::vector<std::string> names;  // of an enum's values, or the strings allowed
  bool is_required = false;
  bool is_path = false;                  // of text: `~` in front of it is the home folder
  std::vector<std::string> elsewhere;    // what other programs call the key
  std::vector<std::string> measured_by;  // what they set instead, in another unit

  ConfigRule at_least(double bound) const;
  ConfigRule above(double bound) const;
  ConfigRule at_most(double bound) const;
  ConfigRule below(double bound) const;
  ConfigRule one_of(std::initializer_list<const char*> choices) const;
  ConfigRule required() const;
  ConfigRule path() const;
  ConfigRule elsewhere_called(std::initializer_list<const char*> names) const;
  // Of keys whose value cannot be taken over, such as a share of the steps: who writes one is told what this key counts.
  ConfigRule elsewhere_measured_by(std::initializer_list<const char*> names) const;
};

namespace rule {
inline ConfigRule at_least(double bound) { return ConfigRule().at_least(bound); }
inline ConfigRule above(double bound) { return ConfigRule().above(bound); }
inline ConfigRule at_most(double bound) { return ConfigRule().at_most(bound); }
inline ConfigRule below(double bound) { return ConfigRule().below(bound); }
inline ConfigRule positive() { return above(0); }
inline ConfigRule one_of(std::initializer_list<const char*> choices) {
  return ConfigRule().one_of(choices);
}
inline ConfigRule required() { return ConfigRule().required(); }  // the key must be in the file
inline ConfigRule path() { return ConfigRule().path(); }          // a file or folder
// Who writes such a name is told the key.
inline ConfigRule elsewhere_called(std::initializer_list<const char*> names) {
  return ConfigRule().elsewhere_called(names);
}
}  // namespace rule

// A value, or a word that stands for a choice made later.
template <class T, class Word>
struct OrWord {
  std::optional<T> value;
  OrWord() = default;
  OrWord(T v) : value(std::move(v)) {}  // NOLINT: reads as the value itself
  bool is_word() const { return !value.has_value(); }
  const T& value_or(const T& chosen) const { return value ? *value : chosen; }
  bool operator==(const OrWord&) const = default;
};
struct AutoWord {
  static constexpr const char* kText = "auto";
};
struct AllWord {
  static constexpr const char* kText = "all";
};
struct NoneWord {
  static constexpr const char* kText = "none";
};
template <class T>
using AutoOr = OrWord<T, AutoWord>;
template <class T>
using AllOr = OrWord<T, AllWord>;
template <class T>
using NoneOr = OrWord<T, NoneWord>;

struct WeightedPath {
  std::string path;
  double weight = 1.0;
  bool operator==(const WeightedPath&) const = default;
};

class ConfigFields;

// One value about to be read: where it stands and what may stand there.
struct ConfigAt {
  const YamlNode& node;
  std::string path;
  const ConfigRule& rule;
  const ConfigFields& root;  // of the whole configuration, for suggestions
  std::string otherwise;     // "null or ", "auto or ": what else would have been accepted

  [[noreturn]] void fail_expected(const std::string& expected) const;
  ConfigAt with(const YamlNode& child, std::string child_path) const;
};

// How a type is read, written and described; specialise for a type of your own.
template <class T>
struct ConfigCodec;

struct ConfigKeyDoc {
  std::string path;
  std::string type;   // "an integer >= 1 or auto"
  std::string value;  // the default
  std::string doc;
  bool is_required = false;  // no default
};

class ConfigField {
 public:
  virtual ~ConfigField() = default;
  virtual void read(const ConfigAt& at) = 0;
  virtual YamlNode write(const ConfigRule& rule) const = 0;
  virtual std::string type(const ConfigRule& rule) const = 0;
  virtual std::optional<ConfigFields> section() const = 0;  // of a nested section
  // Of a section that may be left out: its keys where it is there.
  virtual std::vector<ConfigKeyDoc> keys_within() const = 0;
  virtual bool takes_null() const = 0;  // whether null is a value
};

// What fields() is called with: collects the declared keys.
class ConfigFields {
 public:
  struct Entry {
    std::string key;
    std::string doc;
    ConfigRule rule;
    std::unique_ptr<ConfigField> field;
  };

  template <class T>
  void operator()(const char* key, T& value, const char* doc, const ConfigRule& rule = {});
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void add(const char* key, const char* doc, const ConfigRule& rule,
           std::unique_ptr<ConfigField> field);
  std::vector<Entry> entries_;
};

template <class T>
concept ConfigSection = requires(T& value, ConfigFields& fields) {
  value.fields(fields);
};

template <ConfigSection T>
ConfigFields config_fields(const T& value) {
  ConfigFields fields;
  const_cast<T&>(value).fields(fields);  // declares members; writes through them only when reading
  return fields;
}

// Reads `path`, lays it over the file that its `extends` names (relative to itself; chains allowed), then applies
// overrides `key.path=value`, each value parsed as YAML.
YamlNode load_config(const std::string& path, std::span<const std::string> overrides = {});
// Applies overrides alone; where no file is given, start from YamlNode::map().
void apply_overrides(YamlNode& tree, std::span<const std::string> overrides);

// Lays `value` over what `tree` has at "a.b.c", making the sections above it; the value keeps the place that it came from.
// Throws ConfigError where something above it is no section.
void set_config(YamlNode& tree, std::string_view path, YamlNode value);

void read_config_fields(const YamlNode& tree, const ConfigFields& fields);
YamlNode write_config_fields(const ConfigFields& fields);

// Reads over the defaults that `config` holds. On error some members may be changed. Where null is no value of a key, one that
// a file lays over the file that it extends, an override or a sweep takes the key back: it is as if nobody had given it.
template <ConfigSection T>
void read_config(const YamlNode& tree, T& config) {
  read_config_fields(tree, config_fields(config));
}

// Every key with its value, defaults filled in, in the order of declaration.
template <ConfigSection T>
YamlNode write_config(const T& config) {
  return write_config_fields(config_fields(config));
}

// The node at "a.b.c", or null.
const YamlNode* find_config(const YamlNode& tree, std::string_view path);

// "<file:line where the key was set, else the file>: <path>"
std::string config_where(const YamlNode& tree, std::string_view path);

// Throws "<file:line where the key was set, else the file>: <path>: <message>".
[[noreturn]] void config_fail(const YamlNode& tree, std::string_view path,
                              std::string_view message);

// Each key that is no section with its value as one line, for comparing two configurations.
std::vector<std::pair<std::string, std::string>> flatten_config(const YamlNode& tree);

// Every key that is no section, those of sections that may be left out after them.
std::vector<ConfigKeyDoc> document_config_fields(const ConfigFields& fields);
template <ConfigSection T>
std::vector<ConfigKeyDoc> document_config(const T& config) {
  return document_config_fields(config_fields(config));
}

}  // namespace mstrain

#include "core/base/config_codec.h"  // IWYU pragma: export
