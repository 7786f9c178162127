#include "core/data/corpus.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/data/text_stream.h"

namespace mstrain {
namespace {

// Files that become one stream, or two where some of them are held out.
struct Source {
  std::string name;
  double weight = 1;
  std::vector<SourceFile> files;
};

std::vector<Source> find_sources(FileSystem& files, const std::vector<DataSource>& wanted,
                                 const std::vector<std::string>& extensions) {
  std::vector<Source> sources;
  std::set<std::string> seen;
  for (const DataSource& entry : wanted) {
    if (sources.empty() || entry.weight.has_value()) {
      sources.push_back({entry.path, entry.weight.value_or(1), {}});
    }
    for (SourceFile& file : find_source_files(files, entry.path, extensions)) {
      std::error_code error;
      const std::filesystem::path real = std::filesystem::canonical(file.path, error);
      if (!error && !seen.insert(real.string()).second) {
        throw IoError(fmt::format("{}: named twice by the data, the second time by {}", file.path,
                                  entry.path));
      }
      sources.back().files.push_back(std::move(file));
    }
  }
  return sources;
}

// Bytes with what the tokenizer needs to know of them.
struct Text {
  std::shared_ptr<const MappedFiles> bytes;
  std::shared_ptr<const CharIndex> index;  // for char
};

Text open_text(FileSystem& files, std::vector<SourceFile> sources, bool characters) {
  Text text{std::make_shared<MappedFiles>(files, std::move(sources)), nullptr};
  if (characters) {
    text.index = std::make_shared<CharIndex>(text.bytes);
  }
  return text;
}

TokenStreamPtr tokenize(const Text& text, const std::shared_ptr<const Tokenizer>& tokenizer) {
  if (text.index == nullptr) {
    return byte_stream(text.bytes);
  }
  return char_stream(text.index, std::dynamic_pointer_cast<const CharTokenizer>(tokenizer));
}

struct SourceTexts {
  Text train;
  Text held_out;  // empty where the split is by position, or none
};

SourceTexts open_source(FileSystem& files, const Source& source, double split, bool characters) {
  if (source.files.size() == 1 || split >= 1) {
    return {open_text(files, source.files, characters), {}};
  }
  const std::vector<bool> held_out = held_out_files(source.files, split);
  std::vector<SourceFile> parts[2];
  for (size_t i = 0; i < source.files.size(); ++i) {
    parts[held_out[i] ? 1 : 0].push_back(source.files[i]);
  }
  return {open_text(files, std::move(parts[0]), characters),
          open_text(files, std::move(parts[1]), characters)};
}

std::shared_ptr<const Tokenizer> make_tokenizer(const std::vector<SourceTexts>& texts) {
  if (texts[0].train.index == nullptr) {
    return std::make_shared<ByteTokenizer>();
  }
  std::set<char32_t> characters;
  for (const SourceTexts& source : texts) {
    for (const Text* text : {&source.train, &source.held_out}) {
      if (text->index != nullptr) {
        characters.insert(text->index->characters().begin(), text->index->characters().end());
      }
    }
  }
  return std::make_shared<CharTokenizer>(
      std::vector<char32_t>(characters.begin(), characters.end()));
}

void add_to(Hasher& hasher, const std::vector<Source>& sources) {
  hasher.add(sources.size());
  for (const Source& source : sources) {
    hasher.add(source.weight).add(source.files.size());
    for (const SourceFile& file : source.files) {
      hasher.add(file.name).add(file.bytes);
    }
  }
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

Corpus open_corpus(FileSystem& files, const DataConfig& config,
                   std::shared_ptr<const Tokenizer> tokenizer) {
  check_data_config(config);
  check(tokenizer == nullptr || tokenizer->name() == to_string(config.tokenizer.type),
        "the tokenizer given is of type {}, but data.tokenizer.type is {}",
        tokenizer == nullptr ? "" : tokenizer->name(), to_string(config.tokenizer.type));
  const bool characters = config.tokenizer.type == TokenizerType::kChar;
  const double split = config.valid ? 1.0 : config.split;
  const std::vector<Source> sources = find_sources(files, config.train, config.extensions);
  std::vector<SourceTexts> texts;
  for (const Source& source : sources) {
    texts.push_back(open_source(files, source, split, characters));
  }

  Corpus corpus;
  corpus.tokenizer = tokenizer != nullptr ? std::move(tokenizer) : make_tokenizer(texts);
  std::vector<TokenStreamPtr> valid;
  for (size_t i = 0; i < sources.size(); ++i) {
    TokenStreamPtr train = tokenize(texts[i].train, corpus.tokenizer);
    if (texts[i].held_out.bytes != nullptr) {
      valid.push_back(tokenize(texts[i].held_out, corpus.tokenizer));
    } else if (split < 1) {
      const int64_t size = train->size();
      const auto cut = static_cast<int64_t>(static_cast<double>(size) * split);
      valid.push_back(slice_stream(train, cut, size));
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
  add_to(identity, sources);
  if (config.valid) {
    const std::vector<Source> held_out = find_sources(files, *config.valid, config.extensions);
    for (const Source& source : held_out) {
      valid.push_back(tokenize(open_text(files, source.files, characters), corpus.tokenizer));
    }
    add_to(identity, held_out);
  }
  if (!valid.empty()) {
    corpus.valid = concat_streams(std::move(valid));
    check(corpus.valid->size() >= 2,
          "{} tokens are held out to evaluate on, but scoring one needs 2; lower data.split",
          corpus.valid->size());
  }
  corpus.identity = identity.finish();
  return corpus;
}

}  // namespace mstrain
