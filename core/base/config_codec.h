// The types that a configuration may hold; part of core/base/config.h. Templates only forward to functions in the .cc.
#pragma once

#include "core/base/config.h"

namespace mstrain {

namespace config_detail {
bool read_bool(const ConfigAt& at);
int64_t read_int(const ConfigAt& at, int64_t low, int64_t high);
double read_double(const ConfigAt& at);
float read_float(const ConfigAt& at);
YamlNode write_float(float value);  // shortest text that reads back as the same float
std::string read_string(const ConfigAt& at);
size_t read_name(const ConfigAt& at);  // index into the rule's names
YamlNode write_name(const ConfigRule& rule, size_t index);
bool is_word(const YamlNode& node, std::string_view word);
std::vector<WeightedPath> read_paths(const ConfigAt& at);
YamlNode write_paths(const std::vector<WeightedPath>& paths);
void read_section(const ConfigAt& at, const ConfigFields& fields);

std::string int_type(const ConfigRule& rule);
std::string double_type(const ConfigRule& rule);
std::string string_type(const ConfigRule& rule);
}  // namespace config_detail

template <>
struct ConfigCodec<bool> {
  static void read(const ConfigAt& at, bool& out) { out = config_detail::read_bool(at); }
  static YamlNode write(bool value, const ConfigRule&) { return YamlNode::boolean(value); }
  static std::string type(const ConfigRule&) { return "true or false"; }
};

template <std::integral T>
struct ConfigCodec<T> {
  static constexpr int64_t kLow =
      std::is_unsigned_v<T> ? 0 : static_cast<int64_t>(std::numeric_limits<T>::min());
  static constexpr int64_t kHigh = sizeof(T) == 8
                                       ? std::numeric_limits<int64_t>::max()
                                       : static_cast<int64_t>(std::numeric_limits<T>::max());
  static void read(const ConfigAt& at, T& out) {
    out = static_cast<T>(config_detail::read_int(at, kLow, kHigh));
  }
  static YamlNode write(T value, const ConfigRule&) {
    return YamlNode::integer(static_cast<int64_t>(value));
  }
  static std::string type(const ConfigRule& rule) { return config_detail::int_type(rule); }
};

template <std::floating_point T>
struct ConfigCodec<T> {
  static void read(const ConfigAt& at, T& out) {
    if constexpr (std::is_same_v<T, float>) {
      out = config_detail::read_float(at);
    } else {
      out = config_detail::read_double(at);
    }
  }
  static YamlNode write(T value, const ConfigRule&) {
    if constexpr (std::is_same_v<T, float>) {
      return config_detail::write_float(value);
    } else {
      return YamlNode::number(value);
    }
  }
  static std::string type(const ConfigRule& rule) { return config_detail::double_type(rule); }
};

template <>
struct ConfigCodec<std::string> {
  static void read(const ConfigAt& at, std::string& out) { out = config_detail::read_string(at); }
  static YamlNode write(const std::string& value, const ConfigRule&) {
    return YamlNode::string(value);
  }
  static std::string type(const ConfigRule& rule) { return config_detail::string_type(rule); }
};

template <class T>
requires std::is_enum_v<T>
struct ConfigCodec<T> {
  static void read(const ConfigAt& at, T& out) {
    out = static_cast<T>(config_detail::read_name(at));
  }
  static YamlNode write(T value, const ConfigRule& rule) {
    return config_detail::write_name(rule, static_cast<size_t>(value));
  }
  static std::string type(const ConfigRule& rule) { return config_detail::string_type(rule); }
};

template <class T>
struct ConfigCodec<std::optional<T>> {
  static void read(const ConfigAt& at, std::optional<T>& out) {
    if (at.node.is_null()) {
      out.reset();
      return;
    }
    ConfigAt inner = at;
    inner.otherwise += "null or ";
    T value{};
    ConfigCodec<T>::read(inner, value);
    out = std::move(value);
  }
  static YamlNode write(const std::optional<T>& value, const ConfigRule& rule) {
    return value ? ConfigCodec<T>::write(*value, rule) : YamlNode();
  }
  static std::string type(const ConfigRule& rule) {
    return ConfigCodec<T>::type(rule) + " or null";
  }
};

template <class T, class Word>
struct ConfigCodec<OrWord<T, Word>> {
  static void read(const ConfigAt& at, OrWord<T, Word>& out) {
    if (config_detail::is_word(at.node, Word::kText)) {
      out.value.reset();
      return;
    }
    ConfigAt inner = at;
    inner.otherwise += std::string(Word::kText) + " or ";
    T value{};
    ConfigCodec<T>::read(inner, value);
    out.value = std::move(value);
  }
  // A string that spells the word itself is quoted, so that it stays a string.
  static YamlNode write(const OrWord<T, Word>& value, const ConfigRule& rule) {
    if (value.is_word()) {
      return YamlNode::scalar(Word::kText);
    }
    YamlNode node = ConfigCodec<T>::write(*value.value, rule);
    node.quoted = node.quoted || config_detail::is_word(node, Word::kText);
    return node;
  }
  static std::string type(const ConfigRule& rule) {
    return ConfigCodec<T>::type(rule) + " or " + Word::kText;
  }
};

template <class T>
struct ConfigCodec<std::vector<T>> {
  static void read(const ConfigAt& at, std::vector<T>& out) {
    if (!at.node.is_sequence()) {
      at.fail_expected(type(at.rule));
    }
    out.clear();
    for (const YamlNode& child : at.node.children) {
      T value{};
      ConfigCodec<T>::read(at.with(child, at.path + '[' + std::to_string(out.size()) + ']'), value);
      out.push_back(std::move(value));
    }
  }
  static YamlNode write(const std::vector<T>& values, const ConfigRule& rule) {
    YamlNode node = YamlNode::sequence();
    for (const T& value : values) {
      node.children.push_back(ConfigCodec<T>::write(value, rule));
    }
    return node;
  }
  static std::string type(const ConfigRule& rule) {
    return "a list, each " + ConfigCodec<T>::type(rule);
  }
};

template <class T, size_t N>
struct ConfigCodec<std::array<T, N>> {
  static void read(const ConfigAt& at, std::array<T, N>& out) {
    if (!at.node.is_sequence() || at.node.children.size() != N) {
      at.fail_expected(type(at.rule));
    }
    std::vector<T> values;
    ConfigCodec<std::vector<T>>::read(at, values);
    std::move(values.begin(), values.end(), out.begin());
  }
  static YamlNode write(const std::array<T, N>& values, const ConfigRule& rule) {
    return ConfigCodec<std::vector<T>>::write({values.begin(), values.end()}, rule);
  }
  static std::string type(const ConfigRule& rule) {
    return "a list of " + std::to_string(N) + ", each " + ConfigCodec<T>::type(rule);
  }
};

template <>
struct ConfigCodec<std::vector<WeightedPath>> {
  static void read(const ConfigAt& at, std::vector<WeightedPath>& out) {
    out = config_detail::read_paths(at);
  }
  static YamlNode write(const std::vector<WeightedPath>& value, const ConfigRule&) {
    return config_detail::write_paths(value);
  }
  static std::string type(const ConfigRule&) {
    return "a path, a list of paths or a list of {path, weight}";
  }
};

template <ConfigSection T>
struct ConfigCodec<T> {
  static void read(const ConfigAt& at, T& out) {
    config_detail::read_section(at, config_fields(out));
  }
  static YamlNode write(const T& value, const ConfigRule&) { return write_config(value); }
  static std::string type(const ConfigRule&) { return "a section"; }
};

namespace config_detail {

// Of what may be left out, what is there else.
template <class T>
struct Within {
  static constexpr bool kTakesNull = ConfigSection<T>;  // an empty section
  using Type = void;
};
template <class T>
struct Within<std::optional<T>> {
  static constexpr bool kTakesNull = true;
  using Type = T;
};
template <class T, class Word>
struct Within<OrWord<T, Word>> {
  static constexpr bool kTakesNull = Within<T>::kTakesNull;
  using Type = T;
};

template <class T>
class FieldOf final : public ConfigField {
 public:
  explicit FieldOf(T& value) : value_(value) {}
  void read(const ConfigAt& at) override { ConfigCodec<T>::read(at, value_); }
  YamlNode write(const ConfigRule& rule) const override {
    return ConfigCodec<T>::write(value_, rule);
  }
  std::string type(const ConfigRule& rule) const override { return ConfigCodec<T>::type(rule); }
  std::optional<ConfigFields> section() const override {
    if constexpr (ConfigSection<T>) {
      return config_fields(value_);
    } else {
      return std::nullopt;
    }
  }
  std::vector<ConfigKeyDoc> keys_within() const override {
    if constexpr (ConfigSection<typename Within<T>::Type>) {
      return document_config(typename Within<T>::Type());
    } else {
      return {};
    }
  }
  bool takes_null() const override { return Within<T>::kTakesNull; }

 private:
  T& value_;
};

}  // namespace config_detail

template <class T>
void ConfigFields::operator()(const char* key, T& value, const char* doc, const ConfigRule& rule) {
  add(key, doc, rule, std::make_unique<config_detail::FieldOf<T>>(value));
}

}  // namespace mstrain
