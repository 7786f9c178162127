// The tokenizers that need no training: one id per byte, and one id per character of the training
// text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/data/tokenizer.h"

namespace mstrain {

// 256 ids; every byte string round-trips.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "byte"; }
  int64_t vocab_size() const override { return 256; }
  size_t encode_some(std::string_view text, bool last, EncodeState& state,
                     std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::vector<TokenizerFile> files() const override;
};

// One id per Unicode character, numbered by code point. Text is UTF-8; invalid bytes are an error
// with their offset.
class CharTokenizer final : public Tokenizer {
 public:
  // `characters` ascend strictly, are not empty and are Unicode scalar values; Error otherwise.
  explicit CharTokenizer(std::vector<char32_t> characters);

  // The distinct characters of `text`.
  static CharTokenizer of_text(std::string_view text);

  std::string_view name() const override { return "char"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(characters_.size()); }
  size_t encode_some(std::string_view text, bool last, EncodeState& state,
                     std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::vector<TokenizerFile> files() const override;

  // -1 where `character` has no id.
  int32_t id_of(char32_t character) const {
    return character < id_of_.size() ? id_of_[character] : -1;
  }
  const std::vector<char32_t>& characters() const { return characters_; }

 private:
  std::vector<char32_t> characters_;
  std::vector<int32_t> id_of_;  // by code point, up to the largest
};

}  // namespace mstrain
