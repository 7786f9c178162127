#include "core/data/gpt2_split.h"

namespace mstrain {
namespace {

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
  const SplitCharacter first = character_at(text, word, classes_);
  if (first.kind != CharClass::kSpace) {
    return end_of_run(text, word + first.length, first.kind, classes_);
  }
  size_t end = at;
  size_t last = at;  // where the last character of the run begins
  while (end < text.size()) {
    const SplitCharacter next = character_at(text, end, classes_);
    if (next.kind != CharClass::kSpace) {
      return last > at ? last : end;
    }
    last = end;
    end += next.length;
  }
  return end;
}

}  // namespace mstrain
