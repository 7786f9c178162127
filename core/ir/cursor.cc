#include "core/ir/cursor.h"

#include <algorithm>
#include <charconv>

namespace mstrain {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

template <class T>
bool read_all(std::string_view text, T* value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void TextCursor::fail_at(size_t position, std::string_view message) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  fail("{}:{}: {}", line, position - start + 1, message);
}

void TextCursor::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

bool TextCursor::at_end() {
  skip_space();
  return at_ == text_.size();
}

char TextCursor::peek() { return at_end() ? '\0' : text_[at_]; }

bool TextCursor::accept(std::string_view token) {
  skip_space();
  if (text_.substr(at_, token.size()) != token) {
    return false;
  }
  at_ += token.size();
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (!accept(token)) {
    fail_here(at_end() ? fmt::format("the text ends where '{}' is expected", token)
                       : fmt::format("expected '{}', found '{}'", token, text_.substr(at_, 1)));
  }
}

std::string_view TextCursor::word(std::string_view what) {
  skip_space();
  const size_t start = at_;
  while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > start && is_digit(text_[at_])))) {
    ++at_;
  }
  if (at_ == start) {
    fail_here(fmt::format("expected {}", what));
  }
  return text_.substr(start, at_ - start);
}

std::string_view TextCursor::numeral() {
  skip_space();
  const size_t start = at_;
  while (at_ < text_.size() &&
         (is_digit(text_[at_]) ||
          std::string_view("+-.eE").find(text_[at_]) != std::string_view::npos)) {
    ++at_;
  }
  if (at_ == start) {
    fail_here("expected a number");
  }
  return text_.substr(start, at_ - start);
}

int64_t TextCursor::integer() {
  skip_space();
  const size_t start = at_;
  at_ += text_.substr(at_, 1) == "-" ? 1 : 0;
  while (at_ < text_.size() && is_digit(text_[at_])) {
    ++at_;
  }
  int64_t value = 0;
  if (!read_all(text_.substr(start, at_ - start), &value, 10)) {
    fail_at(start, "expected an integer of 64 bits");
  }
  return value;
}

uint64_t TextCursor::hexadecimal() {
  expect("0x");
  const size_t start = at_;
  while (at_ < text_.size() && (is_digit(text_[at_]) || is_letter(text_[at_]))) {
    ++at_;
  }
  uint64_t value = 0;
  if (!read_all(text_.substr(start, at_ - start), &value, 16)) {
    fail_at(start, "expected hexadecimal digits");
  }
  return value;
}

std::string TextCursor::quoted() {
  expect("\"");
  const size_t start = at_;
  std::string result;
  for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    if (text_[at_] != '\\') {
      result += text_[at_];
      continue;
    }
    const std::string_view escape = text_.substr(++at_, 1);
    uint8_t byte = 0;
    if (escape == "n") {
      result += '\n';
    } else if (escape == "\"" || escape == "\\") {
      result += escape;
    } else if (escape == "x" && at_ + 3 <= text_.size() &&
               read_all(text_.substr(at_ + 1, 2), &byte, 16)) {
      result += static_cast<char>(byte);
      at_ += 2;
    } else {
      fail_here("an unknown escape");
    }
  }
  if (at_ >= text_.size()) {
    fail_at(start, "a text that does not end");
  }
  ++at_;
  return result;
}

}  // namespace mstrain
