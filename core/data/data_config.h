// The `data` section of a run on text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"

namespace mstrain {

struct DataSource {
  std::string path;  // a file, a folder or a pattern, see core/data/source_files.h
  std::optional<double> weight;
  bool operator==(const DataSource&) const = default;

  template <class V>
  void fields(V& v) {
    v("path", path, "file, folder or pattern", rule::required());
    v("weight", weight, "share of the samples, relative to the other sources", rule::positive());
  }
};

// In YAML a path, a list of paths or a list of {path, weight}; either all entries have a weight or
// none.
template <>
struct ConfigCodec<std::vector<DataSource>> {
  static void read(const ConfigAt& at, std::vector<DataSource>& out);
  static YamlNode write(const std::vector<DataSource>& sources, const ConfigRule& rule);
  static std::string type(const ConfigRule& rule);
};

enum class TokenizerType { kChar, kByte };

struct TokenizerConfig {
  TokenizerType type = TokenizerType::kByte;

  template <class V>
  void fields(V& v) {
    v("type", type, "one id per Unicode character of the training text, or per byte",
      rule::one_of({"char", "byte"}));
  }
};

struct DataConfig {
  std::vector<DataSource> train;
  std::optional<std::vector<DataSource>> valid;
  double split = 0.9;
  std::vector<std::string> extensions;
  TokenizerConfig tokenizer;
  int64_t seq_length = 1024;
  bool shuffle = true;

  template <class V>
  void fields(V& v) {
    v("train", train, "text to train on; blended by weight, without weights one after the other",
      rule::required());
    v("valid", valid, "text to evaluate on; null: what split holds out");
    v("split", split,
      "part of the training text to train on where valid is null: of one file by position, of "
      "several by holding out whole files; 1: hold out nothing",
      rule::above(0).at_most(1));
    v("extensions", extensions, "endings of the files to take from folders; none: all files");
    v("tokenizer", tokenizer, "how text becomes ids");
    v("seq_length", seq_length, "tokens in a sample", rule::at_least(1));
    v("shuffle", shuffle, "draw samples in a new random order in every pass over the text");
  }
};

std::string to_string(TokenizerType type);

// What one key alone cannot tell. Throws ConfigError, with the line where `tree` is what `config`
// was read from.
void check_data_config(const DataConfig& config, const YamlNode& tree = YamlNode());

}  // namespace mstrain
