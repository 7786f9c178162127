// Opens what a `data` section names: the tokenizer and the token streams to train on and to
// evaluate on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/hash.h"
#include "core/data/data_config.h"
#include "core/data/source_files.h"
#include "core/data/token_stream.h"
#include "core/data/tokenizer.h"
#include "core/data/windows.h"

namespace mstrain {

struct HeldOutStream {
  std::string name;  // of data.valid; empty where it is the only one
  TokenStreamPtr tokens;
};

struct Corpus {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<WeightedStream> train;  // one a weighted source; without weights one of all files
  std::vector<HeldOutStream> valid;   // none where nothing is held out

  // Names, sizes, weights, split and vocabulary: a run goes on exactly only on data with the same
  // identity. Where the files lie does not count, and their contents are not read for it.
  Hash128 identity;

  int64_t train_tokens() const;
};

// Where `data.valid` is not given, `data.split` decides what is held out of each source: a single
// file is cut by position, its first int(tokens * split) tokens train; of several files some are
// held out whole, chosen by a hash of their names until 1 - split of the bytes are reached, at
// least one file. A split of 1 holds out nothing.
//
// The tokenizer is that of `data.tokenizer.path`. Without a path the characters of a char tokenizer
// are those of all text that `data.train` names, held-out parts included. `tokenizer`, that of a
// checkpoint, takes the place of a new one; it must be of the type that `config` names.
//
// Text is bytes or characters that are mapped, not copied, or is encoded as a whole, see
// core/data/encoded_text.h; files of ids (.bin, or the name of a Megatron pair without its ending)
// are mapped; a char tokenizer reads everything once. `files` must outlive the corpus. Throws
// IoError naming the key, with its line where `tree` is what `config` was read from, and a file
// that is missing, empty, in two sources, damaged, no text (core/data/text_check.h), not UTF-8, or
// has characters without an id, and Error where a source is too short for one window.
Corpus open_corpus(FileSystem& files, const DataConfig& config,
                   std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                   const YamlNode& tree = YamlNode());

// The vocabulary's size where it can be told without opening data; none: it is made of the text.
// Throws IoError that names the key.
std::optional<int64_t> known_vocab_size(FileSystem& files, const DataConfig& config,
                                        const YamlNode& tree = YamlNode());

// Which of `files` open_corpus holds out.
std::vector<bool> held_out_files(const std::vector<SourceFile>& files, double split);

}  // namespace mstrain
