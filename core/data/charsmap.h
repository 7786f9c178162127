// The character map of SentencePiece's normalisers (nmt_nfkc and others): replaces the longest
// known start of a text by another string.
//
// Format: u32 size of the trie in bytes | the trie, units of u32 | replacements, each ended by NUL;
// all little-endian. The trie is a double array as in github.com/s-yata/darts-clone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mstrain {

class Charsmap {
 public:
  // An empty `blob` maps nothing. Throws IoError beginning with `source` for a damaged one.
  explicit Charsmap(std::string_view blob = {}, std::string source = {});

  struct Found {
    size_t length = 0;  // bytes of the text that are replaced; 0: none
    std::string_view replacement;
  };
  // What the start of `text` becomes. Throws IoError where the trie leads outside of itself.
  Found longest(std::string_view text) const;

  // A key is never longer than this: text further on changes nothing.
  static constexpr size_t kLongestKey = 64;

 private:
  uint32_t unit(size_t at) const;

  std::string source_;
  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace mstrain
