// GPT-2's pattern that cuts text into pieces before byte-pair merges:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// A byte that belongs to no valid UTF-8 character counts as one character of the third class.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/data/split_character.h"

namespace mstrain {

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class Gpt2Split {
 public:
  // The piece that begins at text[at]; at < text.size(). It depends on the text from `at` on alone.
  SplitPiece piece_at(std::string_view text, size_t at) const {
    const size_t end = end_of_piece(text, at);
    return {end, end};
  }

  static constexpr size_t kLookahead = 8;

 private:
  size_t end_of_piece(std::string_view text, size_t at) const;

  CharClasses classes_;
};

}  // namespace mstrain
