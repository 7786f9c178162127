// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table
// 3-7).
#pragma once

#include <string>
#include <string_view>

namespace mstrain {

struct Utf8Character {
  char32_t code = 0;
  int length = 0;  // in bytes, 1 to 4; 0 where the bytes are no character
};

// The character that begins at text[at]; `at` must be below text.size().
Utf8Character decode_utf8(std::string_view text, size_t at);

// Offset of the first byte that belongs to no character; npos where `text` is valid.
size_t find_invalid_utf8(std::string_view text);

// Each maximal run of bytes that begins a character but is none becomes U+FFFD, as does every other
// byte that belongs to no character (Unicode 15, 3.9, "U+FFFD substitution of maximal subparts").
std::string replace_invalid_utf8(std::string_view text);

void append_utf8(char32_t code, std::string& text);

// Unicode's Normalization Form C of what is valid in `text`; other bytes stay as they are.
std::string to_nfc(std::string_view text);

// For messages: 'é' (U+00E9), or U+0007 alone where the character cannot be shown.
std::string describe_character(char32_t code);

}  // namespace mstrain
