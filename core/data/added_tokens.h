// Tokens that are found in a text as they are, before anything else is done with it: special tokens
// such as <|endoftext|>, and words that were added to a vocabulary.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/tokenizer.h"

namespace mstrain {

// What tokenizer_config.json and special_tokens_map.json call eos_token and pad_token.
struct NamedTokens {
  std::optional<std::string> end, pad;
};

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool lstrip = false;      // takes white space before it with it
  bool rstrip = false;      // and after it
  bool normalized = false;  // is looked for in the normalised text
  bool special = false;
};

class AddedTokens {
 public:
  // Contents must not be empty, and no two equal; Error otherwise.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  struct Match {
    size_t begin = 0;  // of the text that it takes, white space included
    size_t end = 0;
    size_t content = 0;  // where its own text begins
    int32_t id = 0;
  };
  // The first match at or after `from`; of those that begin at one place, the longest. White space
  // before `from` is not taken. Time is proportional to the text passed over times the length of
  // the tokens that begin like it. `plain`, empty or as long as `text`: special tokens are not
  // found over bytes that it marks.
  std::optional<Match> find(std::string_view text, size_t from, std::string_view plain = {}) const;

  // The longest token that begins at text[at], white space not considered.
  std::optional<Match> at(std::string_view text, size_t at) const;

  bool empty() const { return tokens_.empty(); }
  size_t longest() const { return longest_; }  // in bytes, white space not counted

 private:
  const AddedToken* match_at(std::string_view text, size_t at, std::string_view plain = {}) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::vector<uint32_t> first_;     // by first byte: where its tokens begin; 257 entries
  std::array<bool, 256> starts_{};  // by first byte: whether any token begins with it
  std::optional<char> only_start_;
  size_t longest_ = 0;
};

// The added tokens of a tokenizer: those that are found in the text before others, and those that are looked for in what
// the first ones leave.
class AddedTokenLevels {
 public:
  AddedTokenLevels() = default;
  // Error as of AddedTokens, which each level is.
  explicit AddedTokenLevels(const std::vector<AddedToken>& tokens);

  size_t longest() const { return std::max(levels_[0].longest(), levels_[1].longest()); }

  // Encodes text without added tokens, from its start, and returns how many bytes it took; `last`: a segment ends with it.
  using EncodeSegment = std::function<size_t(std::string_view text, bool last)>;
  // Tokenizer::encode_some(), where `encode_segment` knows the rest.
  size_t encode_some(std::string_view text, bool last, EncodeState& state,
                     std::vector<int32_t>& ids, const EncodeSegment& encode_segment) const;

 private:
  struct Call;
  size_t encode_level(Call& call, size_t level, std::string_view text, bool last) const;
  static std::string_view plain_of(const Call& call, std::string_view text);

  std::array<AddedTokens, 2> levels_;
};

}  // namespace mstrain
