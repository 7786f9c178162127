#include "core/data/utf8.h"

#include <fmt/core.h>

#include <algorithm>

namespace mstrain {

Utf8Character decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned first = byte(0);
  if (first < 0x80) {
    return {first, 1};
  }
  const int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() - at < static_cast<size_t>(length)) {
    return {};
  }
  char32_t code = first & (0x7FU >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return {};
    }
    code = code << 6 | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) {
    return {};
  }
  return {code, length};
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int length =
        static_cast<unsigned char>(text[at]) < 0x80 ? 1 : decode_utf8(text, at).length;
    if (length == 0) {
      return at;
    }
    at += length;
  }
  return text.npos;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const size_t bad = std::min(find_invalid_utf8(text), text.size());
    out += text.substr(0, bad);
    text.remove_prefix(bad);
    if (text.empty()) {
      return out;
    }
    out += "\xEF\xBF\xBD";
    // The longest start of some character; what follows the second byte is any continuation byte.
    size_t length = 1;
    for (size_t known = std::min<size_t>(3, text.size()); known > 1 && length == 1; --known) {
      char bytes[4] = {'\x80', '\x80', '\x80', '\x80'};
      std::copy_n(text.begin(), known, bytes);
      for (size_t size = known + 1; size <= 4; ++size) {
        if (decode_utf8({bytes, size}, 0).length == static_cast<int>(size)) {
          length = known;
        }
      }
    }
    text.remove_prefix(length);
  }
}

void append_utf8(char32_t code, std::string& text) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string describe_character(char32_t code) {
  std::string number = fmt::format("U+{:04X}", static_cast<uint32_t>(code));
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  if (control) {
    return number;
  }
  std::string shown;
  append_utf8(code, shown);
  return fmt::format("'{}' ({})", shown, number);
}

}  // namespace mstrain
