// The alphabet of byte-level BPE: vocabulary files spell each byte as one printable character.
// Source: GPT-2's bytes_to_unicode: bytes 33-126, 161-172 and 174-255 stand for themselves, the
// other 68 in ascending order for U+0100, U+0101, …
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mstrain {

char32_t byte_to_alphabet(unsigned char byte);
std::string spell_bytes(std::string_view bytes);  // UTF-8

// The bytes that `spelled` stands for; none where a character lies outside the alphabet.
std::optional<std::string> unspell_bytes(std::string_view spelled);

}  // namespace mstrain
