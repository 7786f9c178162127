#include "core/data/corpus.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/data/corpus_sources.h"
#include "core/data/documents.h"
#include "core/data/encoded_text.h"
#include "core/data/text_check.h"
#include "core/data/text_stream.h"
#include "core/data/token_files.h"
#include "core/data/tokenize_files.h"

namespace mstrain {
namespace {

constexpr const char* kTrainKey = "data.train";
constexpr const char* kValidKey = "data.valid";
constexpr const char* kTokenizerKey = "data.tokenizer";

enum class FileKind { kText, kJsonLines, kTokens };

FileKind kind_of(const SourceFile& file) {
  return is_token_file(file.path)   ? FileKind::kTokens
         : is_json_lines(file.path) ? FileKind::kJsonLines
                                    : FileKind::kText;
}

// Consecutive files of one kind, with what the tokenizer needs to know of them.
struct Part {
  FileKind kind = FileKind::kText;
  std::vector<SourceFile> files;
  std::shared_ptr<const CharIndex> index;  // of text, for char
};
using Parts = std::vector<Part>;

Parts make_parts(FileSystem& files, std::vector<SourceFile> sources, const DataConfig& config) {
  Parts parts;
  for (SourceFile& file : sources) {
    const FileKind kind = kind_of(file);
    if (parts.empty() || parts.back().kind != kind) {
      parts.push_back({.kind = kind});
    }
    parts.back().files.push_back(std::move(file));
  }
  for (Part& part : parts) {
    if (part.kind == FileKind::kText && !config.binary) {
      check_is_text(files, part.files, "data.extensions chooses files by their endings",
                    "those of token ids end in .bin, data.binary: true trains on bytes of any "
                    "kind, model.type: vit on pictures");
    }
    if (config.tokenizer.type == TokenizerType::kChar && part.kind == FileKind::kText) {
      part.index = std::make_shared<CharIndex>(std::make_shared<MappedFiles>(files, part.files));
    }
  }
  return parts;
}

TokenStreamPtr tokenize(FileSystem& files, const Part& part,
                        const std::shared_ptr<const Tokenizer>& tokenizer) {
  if (part.kind == FileKind::kText && part.index != nullptr) {
    return char_stream(part.index, std::dynamic_pointer_cast<const CharTokenizer>(tokenizer));
  }
  if (part.kind == FileKind::kText && tokenizer->name() == "byte") {
    return byte_stream(std::make_shared<MappedFiles>(files, part.files));
  }
  if (part.kind != FileKind::kTokens) {
    return encoded_text(part.files, *tokenizer);
  }
  std::vector<TokenStreamPtr> streams;
  for (const SourceFile& file : part.files) {
    streams.push_back(open_token_file(files, file, tokenizer->vocab_size()));
  }
  return concat_streams(std::move(streams));
}

TokenStreamPtr tokenize(FileSystem& files, const Parts& parts,
                        const std::shared_ptr<const Tokenizer>& tokenizer) {
  std::vector<TokenStreamPtr> streams;
  for (const Part& part : parts) {
    streams.push_back(tokenize(files, part, tokenizer));
  }
  return concat_streams(std::move(streams));
}

struct SourceParts {
  Parts train;
  Parts held_out;  // empty where the split is by position, or none
};

SourceParts open_source(FileSystem& files, const CorpusSource& source, double split,
                        const DataConfig& config) {
  if (source.files.size() == 1 || split >= 1) {
    return {make_parts(files, source.files, config), {}};
  }
  const std::vector<bool> held_out = held_out_files(source.files, split);
  std::vector<SourceFile> sides[2];
  for (size_t i = 0; i < source.files.size(); ++i) {
    sides[held_out[i] ? 1 : 0].push_back(source.files[i]);
  }
  return {make_parts(files, std::move(sides[0]), config),
          make_parts(files, std::move(sides[1]), config)};
}

std::shared_ptr<const Tokenizer> tokenizer_of_characters(const std::vector<SourceParts>& sources) {
  std::set<char32_t> characters;
  for (const SourceParts& source : sources) {
    for (const Parts* parts : {&source.train, &source.held_out}) {
      for (const Part& part : *parts) {
        std::vector<char32_t> found;
        if (part.index != nullptr) {
          found = part.index->characters();
        } else if (part.kind == FileKind::kJsonLines) {
          found = characters_of(part.files);
        }
        characters.insert(found.begin(), found.end());
      }
    }
  }
  check(!characters.empty(),
        "data.tokenizer: char is made of text, but the data hold ids alone; "
        "name the file of their tokenizer as data.tokenizer.path");
  return std::make_shared<CharTokenizer>(
      std::vector<char32_t>(characters.begin(), characters.end()));
}

std::shared_ptr<const Tokenizer> make_tokenizer(FileSystem& files, const TokenizerConfig& config,
                                                const std::vector<SourceParts>& sources) {
  if (config.path) {
    return tokenizer_at(files, config);
  }
  return config.type == TokenizerType::kByte ? std::make_shared<ByteTokenizer>()
                                             : tokenizer_of_characters(sources);
}

}  // namespace

std::vector<bool> held_out_files(const std::vector<SourceFile>& files, double split) {
  const auto hash_of = [&](size_t i) { return hash_bytes(std::string_view(files[i].name)); };
  std::vector<size_t> order(files.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return hash_of(a) < hash_of(b); });
  double total = 0;
  for (const SourceFile& file : files) {
    total += static_cast<double>(file.bytes);
  }
  double left = (1 - split) * total;
  std::vector<bool> held_out(files.size());
  for (const size_t i : order) {
    const auto bytes = static_cast<double>(files[i].bytes);
    if (bytes <= left) {
      held_out[i] = true;
      left -= bytes;
    }
  }
  if (std::find(held_out.begin(), held_out.end(), true) == held_out.end()) {
    const auto smallest = std::min_element(order.begin(), order.end(), [&](size_t a, size_t b) {
      return files[a].bytes < files[b].bytes;
    });
    held_out[*smallest] = true;
  }
  return held_out;
}

int64_t Corpus::train_tokens() const {
  return std::accumulate(
      train.begin(), train.end(), int64_t{0},
      [](int64_t sum, const WeightedStream& stream) { return sum + stream.tokens->size(); });
}

std::optional<int64_t> known_vocab_size(FileSystem& files, const DataConfig& config,
                                        const YamlNode& tree) {
  check_data_config(config, tree);
  if (config.tokenizer.path) {
    return for_key(tree, kTokenizerKey,
                   [&] { return tokenizer_at(files, config.tokenizer)->vocab_size(); });
  }
  return config.tokenizer.type == TokenizerType::kByte ? std::optional(ByteTokenizer().vocab_size())
                                                       : std::nullopt;
}

Corpus open_corpus(FileSystem& files, const DataConfig& config,
                   std::shared_ptr<const Tokenizer> tokenizer, const YamlNode& tree) {
  check_data_config(config, tree);
  check(tokenizer == nullptr || fits(config.tokenizer.type, tokenizer->name()),
        "the tokenizer given is of type {}, but data.tokenizer.type is {}",
        tokenizer == nullptr ? "" : tokenizer->name(), to_string(config.tokenizer.type));
  const double split = config.valid ? 1.0 : config.split;
  const std::vector<CorpusSource> sources = for_key(
      tree, kTrainKey, [&] { return find_sources(files, config.train, config.extensions); });
  const auto parts = for_key(tree, kTrainKey, [&] {
    std::vector<SourceParts> out;
    for (const CorpusSource& source : sources) {
      out.push_back(open_source(files, source, split, config));
    }
    return out;
  });

  Corpus corpus;
  corpus.tokenizer =
      tokenizer != nullptr ? std::move(tokenizer) : for_key(tree, kTokenizerKey, [&] {
        return make_tokenizer(files, config.tokenizer, parts);
      });
  const auto encode = [&](const std::string& key, const Parts& text) {
    return for_key(tree, key, [&] { return tokenize(files, text, corpus.tokenizer); });
  };
  std::vector<TokenStreamPtr> cut_off;
  for (size_t i = 0; i < sources.size(); ++i) {
    TokenStreamPtr train = encode(kTrainKey, parts[i].train);
    if (!parts[i].held_out.empty()) {
      cut_off.push_back(encode(kTrainKey, parts[i].held_out));
    } else if (split < 1) {
      const int64_t size = train->size();
      const auto cut = static_cast<int64_t>(static_cast<double>(size) * split);
      cut_off.push_back(slice_stream(train, cut, size));
      train = slice_stream(std::move(train), 0, cut);
    }
    check(train->size() > config.seq_length,
          "{}: {} tokens to train on, but data.seq_length {} needs at least {}", sources[i].name,
          train->size(), config.seq_length, config.seq_length + 1);
    corpus.train.push_back({std::move(train), sources[i].weight});
  }
  Hasher identity;
  for (const TokenizerFile& file : corpus.tokenizer->files()) {
    identity.add(file.bytes);
  }
  identity.add(split);
  add_to_identity(identity, sources);
  if (!cut_off.empty()) {
    corpus.valid.push_back({"", concat_streams(std::move(cut_off))});
  }
  for (const ValidSet& set : config.valid.value_or(std::vector<ValidSet>())) {
    const std::string key = kValidKey + (set.name.empty() ? "" : "." + set.name);
    const std::vector<CorpusSource> held_out =
        for_key(tree, key, [&] { return find_sources(files, set.sources, config.extensions); });
    std::vector<TokenStreamPtr> streams;
    for (const CorpusSource& source : held_out) {
      const Parts text =
          for_key(tree, key, [&] { return make_parts(files, source.files, config); });
      streams.push_back(encode(key, text));
    }
    corpus.valid.push_back({set.name, concat_streams(std::move(streams))});
    if (!set.name.empty()) {
      identity.add(set.name);
    }
    add_to_identity(identity, held_out);
  }
  for (const auto& [name, tokens] : corpus.valid) {
    check(tokens->size() >= 2, "{} tokens {} to evaluate on, but scoring one needs 2; {}",
          tokens->size(), name.empty() ? "are held out" : "of data.valid." + name + " are there",
          name.empty() ? "lower data.split" : "name more text");
  }
  corpus.identity = identity.finish();
  return corpus;
}

}  // namespace mstrain
