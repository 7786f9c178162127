#include "core/data/llama_split.h"

namespace mstrain {
namespace {

bool is_newline(char c) { return c == '\n' || c == '\r'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// Length of the contraction at text[at], which is an apostrophe; 0: none.
size_t contraction(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest == "\xC5\xBF") {  // U+017F, the long s
    return 3;
  }
  const char a = rest.empty() ? '\0' : lower(rest[0]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') {
    return 2;
  }
  const char b = rest.size() < 2 ? '\0' : lower(rest[1]);
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

}  // namespace

SplitPiece LlamaSplit::piece_at(std::string_view text, size_t at) const {
  if (text[at] == '\'') {
    if (const size_t length = contraction(text, at); length != 0) {
      return {at + length, at + length};
    }
  }
  const auto up_to = [](size_t end) { return SplitPiece{end, end}; };
  const SplitCharacter first = character_at(text, at, classes_);
  const size_t second = at + first.length;
  if (first.kind == CharClass::kLetter) {
    return up_to(end_of_run(text, second, CharClass::kLetter, classes_));
  }
  if (first.kind == CharClass::kNumber) {
    size_t end = second;
    for (int i = 1; i < digits_ && end < text.size(); ++i) {
      const SplitCharacter next = character_at(text, end, classes_);
      if (next.kind != CharClass::kNumber) {
        break;
      }
      end += next.length;
    }
    return up_to(end);
  }
  // One sign or space goes with the letters behind it, a space also with signs.
  const CharClass after =
      second < text.size() ? character_at(text, second, classes_).kind : CharClass::kSpace;
  if (after == CharClass::kLetter && !is_newline(text[at])) {
    return up_to(end_of_run(text, second, CharClass::kLetter, classes_));
  }
  if (first.kind == CharClass::kOther || (text[at] == ' ' && after == CharClass::kOther)) {
    const size_t signs = end_of_run(text, second, CharClass::kOther, classes_);
    size_t end = signs;
    while (end < text.size() && is_newline(text[end])) {
      ++end;
    }
    // An added token behind white space may take the line ends with it.
    return {end, end == signs ? end : end_of_run(text, end, CharClass::kSpace, classes_)};
  }
  // White space, up to its last line end; else all but a last character that goes with what follows.
  size_t run = at;
  size_t last = at;
  size_t line = at;  // behind the last line end
  while (run < text.size()) {
    const SplitCharacter next = character_at(text, run, classes_);
    if (next.kind != CharClass::kSpace) {
      break;
    }
    last = run;
    run += next.length;
    if (is_newline(text[last])) {
      line = run;
    }
  }
  if (line > at) {
    return {line, run};
  }
  return up_to(run < text.size() && last > at ? last : run);
}

}  // namespace mstrain
