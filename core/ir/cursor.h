// A place in a text that is being parsed; all errors name its line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace mstrain {

// The text must outlive the cursor.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  // Of the next token.
  size_t position() {
    skip_space();
    return at_;
  }
  void rewind(size_t position) { at_ = position; }
  // Throws Error("line:column: message") for `position`.
  [[noreturn]] void fail_at(size_t position, std::string_view message) const;
  [[noreturn]] void fail_here(std::string_view message) { fail_at(position(), message); }

  // Space and comments before a token are skipped by all that follows.
  bool at_end();
  char peek();  // 0 at the end
  bool accept(std::string_view token);
  void expect(std::string_view token);

  // Letters, digits and '_'; throws where there is none.
  std::string_view word(std::string_view what);
  // Characters of a number: digits, signs, '.', 'e'.
  std::string_view numeral();
  int64_t integer();
  uint64_t hexadecimal();  // 0x…
  // "…" with the escapes \" \\ \n \xNN.
  std::string quoted();

 private:
  void skip_space();

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace mstrain
