#include "core/data/jinja/literal.h"

#include <charconv>

#include "core/base/error.h"

namespace mstrain::jinja {
namespace {

// The digits at the start of `rest`, at most `most`, as a number; how many they are.
std::pair<uint32_t, size_t> number_of(std::string_view rest, size_t most, int base) {
  uint32_t value = 0;
  const std::string_view digits = rest.substr(0, most);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  return {value, static_cast<size_t>(end.ptr - digits.data())};
}

}  // namespace

void append_code_point(char32_t code, std::string& text) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 63));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 63));
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  }
}

std::string unescaped(std::string_view inside) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  for (size_t at = 0; at < inside.size(); ++at) {
    if (inside[at] != '\\') {
      out += inside[at];
      continue;
    }
    const char letter = inside[++at];  // there is one: a backslash does not end a string
    if (const size_t known = kLetters.find(letter); known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (letter >= '0' && letter <= '7') {
      const auto [code, digits] = number_of(inside.substr(at), 3, 8);
      append_code_point(code, out);
      at += digits - 1;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const size_t wanted = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      const auto [code, digits] = number_of(inside.substr(at + 1), wanted, 16);
      check(digits == wanted && code < 0x110000 && (code < 0xD800 || code > 0xDFFF),
            "\\{}: expected {} hexadecimal digits of a character", letter, wanted);
      append_code_point(code, out);
      at += wanted;
    } else if (letter == 'N') {
      fail("\\N{{...}}: characters by name are not supported; \\u and \\U are");
    } else if (letter != '\n') {  // a line that goes on
      out += '\\';
      out += letter;
    }
  }
  return out;
}

}  // namespace mstrain::jinja
