// The `data` section of a run on text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"

namespace mstrain {

struct DataSource {
  std::string path;  // a file, a folder or a pattern, see core/data/source_files.h
  std::optional<double> weight;
  bool operator==(const DataSource&) const = default;

  template <class V>
  void fields(V& v) {
    v("path", path, "file, folder or pattern", rule::required().path());
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

// Held-out data under a name; the name is empty where they are the only ones.
struct ValidSet {
  std::string name;
  std::vector<DataSource> sources;
  bool operator==(const ValidSet&) const = default;
};

// In YAML what a list of sources is in YAML, or a map from names to such.
template <>
struct ConfigCodec<std::vector<ValidSet>> {
  static void read(const ConfigAt& at, std::vector<ValidSet>& out);
  static YamlNode write(const std::vector<ValidSet>& sets, const ConfigRule& rule);
  static std::string type(const ConfigRule& rule);
};

enum class TokenizerType { kChar, kByte, kHf, kBpe, kUnigram };

struct TokenizerConfig {
  TokenizerType type = TokenizerType::kByte;
  std::optional<std::string> path;

  template <class V>
  void fields(V& v) {
    v("type", type,
      "one id per Unicode character of the training text (char) or per byte; hf: what path holds, "
      "which bpe and unigram insist on",
      rule::one_of({"char", "byte", "hf", "bpe", "unigram"}));
    v("path", path,
      "a tokenizer's file or folder: tokenizer.json, vocab.json + merges.txt, encoder.json + "
      "vocab.bpe, *.model, or a checkpoint; for char what mstrain tokenize wrote, null: made of "
      "the text",
      rule::path().elsewhere_called({"tokenizer_name", "tokenizer_model", "vocab_file"}));
  }
};

// In YAML a section, or in short `char`, `byte`, or the path of what type `hf` holds.
template <>
struct ConfigCodec<TokenizerConfig> {
  static void read(const ConfigAt& at, TokenizerConfig& out);
  static YamlNode write(const TokenizerConfig& value, const ConfigRule&) {
    return write_config(value);
  }
  static std::string type(const ConfigRule& rule);
};

struct DataConfig {
  std::vector<DataSource> train;
  std::optional<std::vector<ValidSet>> valid;
  double split = 0.9;
  std::vector<std::string> extensions;
  TokenizerConfig tokenizer;
  int64_t seq_length = 1024;
  bool shuffle = true;
  bool packing = true;
  bool binary = false;

  template <class V>
  void fields(V& v) {
    v("train", train,
      "text, JSON lines (.jsonl) or ids (.bin of nanoGPT, llm.c, Megatron) to train on; blended by "
      "weight, without weights one after the other",
      rule::required().path().elsewhere_called({"dataset", "dataset_name", "data_path", "data_dir",
                                                "train_file", "train_data", "text_file"}));
    v("valid", valid,
      "the same to evaluate on, or several under names, each with measures of its own; null: what "
      "split holds out",
      rule::path().elsewhere_called(
          {"validation_file", "valid_file", "eval_file", "val_data", "validation_data"}));
    v("split", split,
      "part of the training text to train on where valid is null: of one file by position, of "
      "several by holding out whole files; 1: hold out nothing",
      rule::above(0).at_most(1));
    v("extensions", extensions, "endings of the files to take from folders; none: all files");
    v("tokenizer", tokenizer, "how text becomes ids");
    v("seq_length", seq_length, "tokens in a sample",
      rule::at_least(1).elsewhere_called({"block_size", "max_seq_length", "seq_len",
                                          "sequence_length", "context_length", "max_seq_len"}));
    v("shuffle", shuffle, "draw samples in a new random order in every pass over the text");
    v("packing", packing,
      "samples run on over the ends of documents; false: each lies in one document, and what it "
      "leaves empty is not scored");
    v("binary", binary,
      "take files that are no text; false: an error where most bytes lie in such files");
  }
};

std::string to_string(TokenizerType type);

// Whether a tokenizer of this name is what `type` asks for.
bool fits(TokenizerType type, std::string_view tokenizer_name);

// What one key alone cannot tell. Throws ConfigError, with the line where `tree` is what `config`
// was read from.
void check_data_config(const DataConfig& config, const YamlNode& tree = YamlNode());

}  // namespace mstrain
