// The characters of a text as patterns that cut it into pieces see them.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/data/unicode_class.h"
#include "core/data/utf8.h"

namespace mstrain {

// A byte that belongs to no valid UTF-8 character counts as one character of the class kOther.
struct SplitCharacter {
  CharClass kind;
  size_t length;  // in bytes
};

namespace split_detail {
constexpr std::array<CharClass, 128> ascii_classes() {
  std::array<CharClass, 128> out{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    out[c] = letter                 ? CharClass::kLetter
             : c >= '0' && c <= '9' ? CharClass::kNumber
             : space                ? CharClass::kSpace
                                    : CharClass::kOther;
  }
  return out;
}
inline constexpr std::array<CharClass, 128> kAscii = ascii_classes();
}  // namespace split_detail

// The one that begins at text[at]; at < text.size().
inline SplitCharacter character_at(std::string_view text, size_t at, const CharClasses& classes) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) [[likely]] {
    return {split_detail::kAscii[first], 1};
  }
  const Utf8Character character = decode_utf8(text, at);
  return character.length == 0
             ? SplitCharacter{CharClass::kOther, 1}
             : SplitCharacter{classes(character.code), static_cast<size_t>(character.length)};
}

// Where the run of characters of one class ends that goes on at text[at].
inline size_t end_of_run(std::string_view text, size_t at, CharClass kind,
                         const CharClasses& classes) {
  while (at < text.size()) {
    const SplitCharacter next = character_at(text, at, classes);
    if (next.kind != kind) {
      break;
    }
    at += next.length;
  }
  return at;
}

// A piece of a text.
struct SplitPiece {
  size_t end = 0;
  // What the end was told by, but for a few bytes (kLookahead of the pattern) behind both.
  size_t seen = 0;
};

}  // namespace mstrain
