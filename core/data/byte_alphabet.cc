#include "core/data/byte_alphabet.h"

#include <array>

#include "core/data/utf8.h"

namespace mstrain {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 0x144> byte{};  // -1: none
  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      character[b] = printable ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = b;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

char32_t byte_to_alphabet(unsigned char byte) { return alphabet().character[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    append_utf8(byte_to_alphabet(static_cast<unsigned char>(c)), out);
  }
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelled) {
  const Alphabet& table = alphabet();
  std::string out;
  for (size_t at = 0; at < spelled.size();) {
    const Utf8Character character = decode_utf8(spelled, at);
    if (character.length == 0 || character.code >= table.byte.size() ||
        table.byte[character.code] < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(table.byte[character.code]));
    at += character.length;
  }
  return out;
}

}  // namespace mstrain
