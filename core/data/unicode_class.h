// What a split pattern asks of a character: \s, \p{L}, \p{N} or none of them: general categories L* and
// N*, and the property White_Space, of the Unicode that utf8proc knows.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mstrain {

enum class CharClass : uint8_t { kOther = 0, kSpace = 1, kLetter = 2, kNumber = 3 };

// "15.0.0"
std::string_view unicode_version();

namespace unicode_detail {
// utf8proc's answers in blocks of 256: a table answers for each character without a call.
struct ClassTable {
  ClassTable();
  std::array<uint16_t, 0x1100> block{};           // by code point / 256
  std::vector<std::array<CharClass, 256>> cells;  // distinct blocks
};
const ClassTable& class_table();
}  // namespace unicode_detail

// `code` is at most U+10FFFF.
class CharClasses {
 public:
  CharClasses() : table_(unicode_detail::class_table()) {}
  CharClass operator()(char32_t code) const {
    return table_.cells[table_.block[code >> 8]][code & 255];
  }

 private:
  const unicode_detail::ClassTable& table_;
};

inline CharClass char_class(char32_t code) { return CharClasses()(code); }

}  // namespace mstrain
