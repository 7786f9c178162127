#include "core/data/data_config.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/paths.h"

namespace mstrain {
namespace {

constexpr const char* kTokenizerTypes[] = {"char", "byte", "hf", "bpe", "unigram"};

bool is_weighted(const DataSource& source) { return source.weight.has_value(); }

// A part of names of metrics, columns and tags.
bool is_set_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

}  // namespace

void ConfigCodec<std::vector<DataSource>>::read(const ConfigAt& at, std::vector<DataSource>& out) {
  if (at.node.is_scalar()) {
    out = {{config_detail::read_string(at), std::nullopt}};
    return;
  }
  if (!at.node.is_sequence() || at.node.children.empty()) {
    at.fail_expected(type(at.rule));
  }
  out.clear();
  for (const YamlNode& child : at.node.children) {
    const ConfigAt inner = at.with(child, fmt::format("{}[{}]", at.path, out.size()));
    DataSource source;
    if (child.is_scalar()) {
      source.path = config_detail::read_string(inner);
    } else if (child.is_map()) {
      ConfigCodec<DataSource>::read(inner, source);
    } else {
      inner.fail_expected("a path or {path, weight}");
    }
    if (!out.empty() && is_weighted(source) != is_weighted(out.front())) {
      yaml_fail(child, inner.path, "either every source has a weight or none");
    }
    out.push_back(std::move(source));
  }
}

YamlNode ConfigCodec<std::vector<DataSource>>::write(const std::vector<DataSource>& sources,
                                                     const ConfigRule&) {
  if (sources.size() == 1 && !is_weighted(sources[0])) {
    return YamlNode::string(sources[0].path);
  }
  YamlNode list = YamlNode::sequence();
  for (const DataSource& source : sources) {
    if (is_weighted(source)) {
      YamlNode& map = list.children.emplace_back(YamlNode::map());
      map.add("path", YamlNode::string(source.path));
      map.add("weight", YamlNode::number(*source.weight));
    } else {
      list.children.push_back(YamlNode::string(source.path));
    }
  }
  return list;
}

std::string ConfigCodec<std::vector<DataSource>>::type(const ConfigRule&) {
  return "a path, a list of paths or a list of {path, weight}";
}

void ConfigCodec<std::vector<ValidSet>>::read(const ConfigAt& at, std::vector<ValidSet>& out) {
  if (!at.node.is_map()) {
    out.assign(1, {});
    ConfigCodec<std::vector<DataSource>>::read(at, out.front().sources);
    return;
  }
  if (at.node.children.empty()) {
    at.fail_expected(type(at.rule));
  }
  out.clear();
  for (const YamlNode& child : at.node.children) {
    if (!is_set_name(child.key)) {
      yaml_fail(child, at.path,
                fmt::format("'{}' is no name of held-out data: expected letters, digits, - and _",
                            child.key));
    }
    ConfigCodec<std::vector<DataSource>>::read(
        at.with(child, fmt::format("{}.{}", at.path, child.key)),
        out.emplace_back(ValidSet{child.key, {}}).sources);
  }
}

YamlNode ConfigCodec<std::vector<ValidSet>>::write(const std::vector<ValidSet>& sets,
                                                   const ConfigRule& rule) {
  if (sets.size() == 1 && sets[0].name.empty()) {
    return ConfigCodec<std::vector<DataSource>>::write(sets[0].sources, rule);
  }
  YamlNode map = YamlNode::map();
  for (const ValidSet& set : sets) {
    map.add(set.name, ConfigCodec<std::vector<DataSource>>::write(set.sources, rule));
  }
  return map;
}

std::string ConfigCodec<std::vector<ValidSet>>::type(const ConfigRule& rule) {
  return ConfigCodec<std::vector<DataSource>>::type(rule) + ", or names with such";
}

void ConfigCodec<TokenizerConfig>::read(const ConfigAt& at, TokenizerConfig& out) {
  if (!at.node.is_scalar()) {
    config_detail::read_section(at, config_fields(out));
    return;
  }
  const auto* const name =
      std::find(std::begin(kTokenizerTypes), std::end(kTokenizerTypes), at.node.text);
  out = name == std::end(kTokenizerTypes)
            ? TokenizerConfig{TokenizerType::kHf, expand_home(at.node.text)}
            : TokenizerConfig{static_cast<TokenizerType>(name - std::begin(kTokenizerTypes)), {}};
}

std::string ConfigCodec<TokenizerConfig>::type(const ConfigRule&) {
  return "a section, char, byte or a tokenizer's file or folder";
}

std::string to_string(TokenizerType type) { return kTokenizerTypes[static_cast<int>(type)]; }

bool fits(TokenizerType type, std::string_view tokenizer_name) {
  return type == TokenizerType::kHf || to_string(type) == tokenizer_name;
}

void check_data_config(const DataConfig& config, const YamlNode& tree) {
  if (config.train.empty()) {
    config_fail(tree, "data.train", "expected at least one path");
  }
  const TokenizerConfig& tokenizer = config.tokenizer;
  if (tokenizer.type == TokenizerType::kByte && tokenizer.path) {
    config_fail(tree, "data.tokenizer.path", "a byte tokenizer has no file; did you mean type hf?");
  }
  if (tokenizer.type != TokenizerType::kByte && tokenizer.type != TokenizerType::kChar &&
      !tokenizer.path) {
    config_fail(tree, "data.tokenizer.type",
                fmt::format("{} needs data.tokenizer.path, a tokenizer's file or folder",
                            to_string(tokenizer.type)));
  }
  const auto weighted = std::count_if(config.train.begin(), config.train.end(), is_weighted);
  if (weighted != 0 && weighted != static_cast<int64_t>(config.train.size())) {
    config_fail(tree, "data.train", "either every source has a weight or none");
  }
  for (const ValidSet& set : config.valid.value_or(std::vector<ValidSet>())) {
    if (std::any_of(set.sources.begin(), set.sources.end(), is_weighted)) {
      config_fail(tree, set.name.empty() ? "data.valid" : "data.valid." + set.name,
                  "weights do not apply here: evaluation reads every source once");
    }
  }
}

}  // namespace mstrain
