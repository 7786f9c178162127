#include "core/data/corpus_sources.h"

#include <set>

namespace mstrain {
namespace {

// "owt_document" stands for Megatron's pair owt_document.bin and owt_document.idx.
std::string data_path(FileSystem& files, const std::string& path) {
  const bool pair =
      !files.exists(path) && files.exists(path + ".bin") && files.exists(path + ".idx");
  return pair ? path + ".bin" : path;
}

bool is_index_of_pair(FileSystem& files, const std::string& path) {
  return path.ends_with(".idx") && files.exists(path.substr(0, path.size() - 4) + ".bin");
}

}  // namespace

std::vector<CorpusSource> find_sources(FileSystem& files, const std::vector<DataSource>& wanted,
                                       std::span<const std::string> extensions) {
  std::vector<CorpusSource> sources;
  std::set<std::string> seen;
  for (const DataSource& entry : wanted) {
    if (sources.empty() || entry.weight.has_value()) {
      sources.push_back({entry.path, entry.weight.value_or(1), {}});
    }
    for (SourceFile& file : find_source_files(files, data_path(files, entry.path), extensions)) {
      if (is_index_of_pair(files, file.path)) {
        continue;
      }
      refuse_twice(seen, file, "the data", entry.path);
      sources.back().files.push_back(std::move(file));
    }
  }
  for (const CorpusSource& source : sources) {
    if (source.files.empty()) {
      throw IoError(
          fmt::format("{}: holds no ids, only where they lie in the .bin beside it; name the .bin",
                      source.name));
    }
  }
  return sources;
}

std::shared_ptr<const Tokenizer> tokenizer_at(FileSystem& files, const TokenizerConfig& config) {
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(files, *config.path);
  if (!fits(config.type, tokenizer->name())) {
    throw IoError(fmt::format("{}: holds a tokenizer of type {}, but data.tokenizer.type is {}",
                              *config.path, tokenizer->name(), to_string(config.type)));
  }
  return tokenizer;
}

void add_to_identity(Hasher& hasher, const std::vector<CorpusSource>& sources) {
  hasher.add(sources.size());
  for (const CorpusSource& source : sources) {
    hasher.add(source.weight).add(source.files.size());
    for (const SourceFile& file : source.files) {
      hasher.add(file.name).add(file.bytes);
    }
  }
}

}  // namespace mstrain
