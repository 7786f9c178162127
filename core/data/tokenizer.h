// Turns text into token ids and back. Immutable once made, so any number of threads may share one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

// The file of a char or byte tokenizer: a JSON object with `format`, `version`, `type` and what the
// type needs. All other kinds keep the names that their makers gave them.
inline constexpr std::string_view kTokenizerFile = "mstrain_tokenizer.json";

struct TokenizerFile {
  std::string name;  // one plain component
  std::string bytes;
};

// Ids that stand around a document where special tokens are asked for.
struct SpecialIds {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

// Where a text that comes in parts stands. A new one begins a document.
struct EncodeState {
  int64_t offset = 0;       // bytes taken so far: errors name offsets in the whole text
  bool in_segment = false;  // for the tokenizer's own use
  // Empty, or a mark for each byte of the whole text: where it is not 0 no special token is found, such as in what a user
  // wrote into a conversation.
  std::string_view plain = {};
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;  // char, byte, bpe or unigram
  virtual int64_t vocab_size() const = 0;     // ids are 0 … vocab_size() - 1

  // Appends the ids of as much of `text`, from its start, as nothing that follows can change, and
  // returns how many bytes that is; all of it where `last` says that nothing follows. The ids of a
  // text do not depend on how it is cut into parts. It may take 0 bytes of a text that is not the
  // last: call again with more.
  // Throws Error naming the character and its byte offset where `text` holds one that has no id.
  virtual size_t encode_some(std::string_view text, bool last, EncodeState& state,
                             std::vector<int32_t>& ids) const = 0;

  // `plain`: see EncodeState.
  std::vector<int32_t> encode(std::string_view text, std::string_view plain = {}) const;

  // The ids of a text that nothing stands before: after those that special() has before one, such as Llama's <s>. What a model
  // goes on from, as it is what its texts began with.
  std::vector<int32_t> encode_beginning(std::string_view text) const;

  // The bytes that `ids` stand for: the text, where they came from encode() and nothing was
  // normalised. Any ids may follow each other, so the bytes need not be valid UTF-8; see
  // replace_invalid_utf8(). An id below vocab_size() that no token has gives nothing. Throws Error
  // where an id is not below vocab_size().
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  // As decode(), for ids that follow others: a space before the first word is kept.
  virtual std::string decode_further(std::span<const int32_t> ids) const { return decode(ids); }

  // What the files say belongs around a document, or, where they say nothing, the token that ends a
  // text (<|endoftext|>) after it.
  virtual SpecialIds special() const { return {}; }

  // The token that ends a text and stands between documents of a token file: the files' eos_token or, where they name none,
  // <|endoftext|>, <|end_of_text|> or </s>. None: the tokenizer has no such token.
  virtual std::optional<int32_t> end_of_text() const { return std::nullopt; }
  // The files' pad_token; none: they name none.
  virtual std::optional<int32_t> pad() const { return std::nullopt; }

  // What load_tokenizer() needs to make the same tokenizer again: what a checkpoint carries. The
  // same tokenizer always gives the same bytes.
  virtual std::vector<TokenizerFile> files() const = 0;

  // The contents of the only file; Error where there are several.
  std::string to_json() const;
};

// The tokenizer at `path`, or the one named `byte`:
// - a folder: of kTokenizerFile, tokenizer.json, vocab.json + merges.txt, encoder.json + vocab.bpe,
//   and one file *.model, the first that it holds;
// - one of those files (of a pair, the other lies beside it), under any name where its content
//   tells what it is.
// `char` is made of a text, see CharTokenizer::of_text. Throws IoError naming the file and the
// offset or key where it is damaged or asks for something that is not supported, and where there
// is none, with the nearest name that exists.
std::shared_ptr<const Tokenizer> load_tokenizer(FileSystem& files, const std::string& path);

// Whether load_tokenizer would find the files of one in `folder`.
bool has_tokenizer(FileSystem& files, const std::string& folder);

}  // namespace mstrain
