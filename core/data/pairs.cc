#include "core/data/pairs.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/data/corpus.h"
#include "core/data/corpus_sources.h"
#include "core/data/documents.h"
#include "core/data/simple_tokenizers.h"

namespace mstrain {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

Texts read_pairs(const std::vector<SourceFile>& files) {
  Texts out;
  for (const SourceFile& file : files) {
    if (!is_json_lines(file.path)) {
      throw IoError(fmt::format(
          "{}: expected pairs as JSON lines (.jsonl) of {{\"input\": …, \"target\": …}}",
          file.path));
    }
    JsonLines lines(file.path);
    JsonLines::Line line;
    while (lines.next(line)) {
      out.push_back(pair_of_line(line.text, file.path, line.number, line.offset));
    }
  }
  return out;
}

// Those to train on, and those held out.
std::pair<Texts, Texts> split_pairs(const std::vector<SourceFile>& files, double split) {
  if (split >= 1) {
    return {read_pairs(files), {}};
  }
  if (files.size() == 1) {
    Texts all = read_pairs(files);
    const auto cut = static_cast<ptrdiff_t>(static_cast<double>(all.size()) * split);
    Texts held_out(std::make_move_iterator(all.begin() + cut), std::make_move_iterator(all.end()));
    all.resize(static_cast<size_t>(cut));
    return {std::move(all), std::move(held_out)};
  }
  std::vector<SourceFile> sides[2];
  const std::vector<bool> held_out = held_out_files(files, split);
  for (size_t i = 0; i < files.size(); ++i) {
    sides[held_out[i] ? 1 : 0].push_back(files[i]);
  }
  return {read_pairs(sides[0]), read_pairs(sides[1])};
}

void append(std::string& all, const Texts& texts) {
  for (const auto& [input, target] : texts) {
    all += input;
    all += target;
  }
}

std::shared_ptr<const Tokenizer> make_tokenizer(FileSystem& files, const TokenizerConfig& config,
                                                const std::vector<std::pair<Texts, Texts>>& texts) {
  if (config.path) {
    return tokenizer_at(files, config);
  }
  if (config.type == TokenizerType::kByte) {
    return std::make_shared<ByteTokenizer>();
  }
  std::string all;
  for (const auto& [train, held_out] : texts) {
    append(all, train);
    append(all, held_out);
  }
  return std::make_shared<CharTokenizer>(CharTokenizer::of_text(all));
}

std::shared_ptr<const Pairs> encode(const Texts& texts, const Seq2SeqVocabulary& vocabulary) {
  auto out = std::make_shared<Pairs>();
  for (const auto& [input, target] : texts) {
    try {
      out->add(vocabulary.encode(input), vocabulary.encode(target));
    } catch (const Error& error) {
      throw IoError(fmt::format("pair {}: {}", out->size() + 1, error.what()));
    }
  }
  return out;
}

}  // namespace

void Pairs::add(std::span<const int32_t> source, std::span<const int32_t> target) {
  longest_source_ = std::max<int64_t>(longest_source_, std::ssize(source));
  longest_target_ = std::max<int64_t>(longest_target_, std::ssize(target));
  for (const auto& text : {source, target}) {
    ids_.insert(ids_.end(), text.begin(), text.end());
    ends_.push_back(ids_.size());
  }
}

std::span<const int32_t> Pairs::text(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  const size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::span(ids_).subspan(begin, ends_[i] - begin);
}

PairCorpus open_pairs(FileSystem& files, const DataConfig& config,
                      const Seq2SeqVocabulary::OfModel& model,
                      std::shared_ptr<const Tokenizer> tokenizer, const YamlNode& tree) {
  check_data_config(config, tree);
  check(tokenizer == nullptr || fits(config.tokenizer.type, tokenizer->name()),
        "the tokenizer given is of type {}, but data.tokenizer.type is {}",
        tokenizer == nullptr ? "" : tokenizer->name(), to_string(config.tokenizer.type));
  const double split = config.valid ? 1.0 : config.split;
  std::vector<CorpusSource> sources;
  const auto texts = for_key(tree, "data.train", [&] {
    sources = find_sources(files, config.train, config.extensions);
    std::vector<std::pair<Texts, Texts>> out;
    for (const CorpusSource& source : sources) {
      out.push_back(split_pairs(source.files, split));
      if (out.back().first.empty()) {
        throw IoError(fmt::format("{}: holds no pair to train on", source.name));
      }
    }
    return out;
  });
  PairCorpus corpus;
  corpus.tokenizer =
      tokenizer != nullptr ? std::move(tokenizer) : for_key(tree, "data.tokenizer", [&] {
        return make_tokenizer(files, config.tokenizer, texts);
      });
  const Seq2SeqVocabulary vocabulary(corpus.tokenizer, model);
  Texts cut_off;
  for (size_t i = 0; i < sources.size(); ++i) {
    corpus.train.push_back(
        {for_key(tree, "data.train", [&] { return encode(texts[i].first, vocabulary); }),
         sources[i].weight});
    cut_off.insert(cut_off.end(), texts[i].second.begin(), texts[i].second.end());
  }
  Hasher identity;
  for (const TokenizerFile& file : corpus.tokenizer->files()) {
    identity.add(file.bytes);
  }
  identity.add(split);
  add_to_identity(identity, sources);
  if (!cut_off.empty()) {
    corpus.valid.push_back(
        {"", for_key(tree, "data.train", [&] { return encode(cut_off, vocabulary); })});
  }
  for (const ValidSet& set : config.valid.value_or(std::vector<ValidSet>())) {
    for_key(tree, "data.valid" + (set.name.empty() ? "" : "." + set.name), [&] {
      Texts held_out;
      const auto found = find_sources(files, set.sources, config.extensions);
      for (const CorpusSource& source : found) {
        Texts more = read_pairs(source.files);
        std::move(more.begin(), more.end(), std::back_inserter(held_out));
      }
      if (held_out.empty()) {
        throw IoError("there is no pair to evaluate on");
      }
      corpus.valid.push_back({set.name, encode(held_out, vocabulary)});
      identity.add(set.name);
      add_to_identity(identity, found);
    });
  }
  corpus.identity = identity.finish();
  return corpus;
}

}  // namespace mstrain
