// What the readers of a `data` section share: its files, and errors that name its keys.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/hash.h"
#include "core/data/data_config.h"
#include "core/data/source_files.h"
#include "core/data/tokenizer.h"

namespace mstrain {

// Files that are read one after the other, some of which may be held out.
struct CorpusSource {
  std::string name;
  double weight = 1;
  std::vector<SourceFile> files;
};

// One a weighted entry; without weights one of all files. Throws IoError where a path leads nowhere, two to one file,
// or one to indexes of Megatron's pairs alone.
std::vector<CorpusSource> find_sources(FileSystem& files, const std::vector<DataSource>& wanted,
                                       std::span<const std::string> extensions);

// Names, weights and sizes: what tells other data from these. Where the files lie does not count.
void add_to_identity(Hasher& hasher, const std::vector<CorpusSource>& sources);

// That of `config.path`, which is there. Throws IoError where it holds another type than config.type.
std::shared_ptr<const Tokenizer> tokenizer_at(FileSystem& files, const TokenizerConfig& config);

// f(); what stops it names the key that asked for it.
template <class F>
auto for_key(const YamlNode& tree, const std::string& key, const F& f) {
  try {
    return f();
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}: {}", config_where(tree, key), error.what()),
                  error.error_number());
  }
}

}  // namespace mstrain
