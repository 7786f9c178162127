#include "core/data/utf8.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/base/error.h"

namespace mstrain {

Utf8Character decode_utf8(std::string_view text, size_t at) {
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data() + at);
  if (*begin < 0x80) {
    return {*begin, 1};
  }
  utf8proc_int32_t code = 0;
  const auto left = static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - at, 4));
  const utf8proc_ssize_t length = utf8proc_iterate(begin, left, &code);
  return length > 0 ? Utf8Character{static_cast<char32_t>(code), static_cast<int>(length)}
                    : Utf8Character{};
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

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = std::min(find_invalid_utf8(text), text.size());
    utf8proc_uint8_t* composed = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(valid), &composed,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> holder(composed, &std::free);
    check(size >= 0, "a text cannot be composed: {}", utf8proc_errmsg(size));
    out.append(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
    text.remove_prefix(valid);
    out += text.substr(0, 1);  // of what is no character
    text.remove_prefix(std::min<size_t>(1, text.size()));
  }
  return out;
}

void append_utf8(char32_t code, std::string& text) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
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
