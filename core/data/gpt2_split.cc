#include "core/data/gpt2_split.h"

#include <array>

#include "core/data/utf8.h"

namespace mstrain {
namespace {

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
constexpr std::array<CharClass, 128> kAscii = ascii_classes();

struct Next {
  CharClass kind;
  size_t length;
};

inline Next next_character(std::string_view text, size_t at, const CharClasses& classes) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) [[likely]] {
    return {kAscii[first], 1};
  }
  const Utf8Character character = decode_utf8(text, at);
  return character.length == 0
             ? Next{CharClass::kOther, 1}
             : Next{classes(character.code), static_cast<size_t>(character.length)};
}

// Length of the contraction at text[at], which is an apostrophe; 0: none.
size_t contraction(std::string_view text, size_t at) {
  if (text.size() - at < 2) {
    return 0;
  }
  const char a = text[at + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') {
    return 2;
  }
  if (text.size() - at < 3) {
    return 0;
  }
  const char b = text[at + 2];
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

}  // namespace

size_t Gpt2Split::end_of_piece(std::string_view text, size_t at) const {
  if (text[at] == '\'') {
    if (const size_t length = contraction(text, at); length != 0) {
      return at + length;
    }
  }
  const size_t word = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  const Next first = next_character(text, word, classes_);
  if (first.kind != CharClass::kSpace) {
    size_t end = word + first.length;
    while (end < text.size()) {
      const Next next = next_character(text, end, classes_);
      if (next.kind != first.kind) {
        break;
      }
      end += next.length;
    }
    return end;
  }
  size_t end = at;
  size_t last = at;  // where the last character of the run begins
  while (end < text.size()) {
    const Next next = next_character(text, end, classes_);
    if (next.kind != CharClass::kSpace) {
      return last > at ? last : end;
    }
    last = end;
    end += next.length;
  }
  return end;
}

}  // namespace mstrain
