// The pattern of Llama 3 and Qwen2 that cuts text into pieces before byte-pair merges; in Llama 3 n is 3, in Qwen2 it is 1:
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
#pragma once

#include <cstddef>
#include <string_view>

#include "core/data/split_character.h"

namespace mstrain {

inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

class LlamaSplit {
 public:
  explicit LlamaSplit(int digits) : digits_(digits) {}

  // As of Gpt2Split.
  SplitPiece piece_at(std::string_view text, size_t at) const;

  static constexpr size_t kLookahead = 8;

 private:
  int digits_;  // of numbers, in one piece
  CharClasses classes_;
};

}  // namespace mstrain
