#include "core/data/unicode_class.h"

#include <utf8proc.h>

#include <map>

namespace mstrain {
namespace {

CharClass class_of(int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return CharClass::kSpace;
    default:  // White_Space has six control characters besides
      return (code >= 0x09 && code <= 0x0D) || code == 0x85 ? CharClass::kSpace : CharClass::kOther;
  }
}

}  // namespace

std::string_view unicode_version() { return utf8proc_unicode_version(); }

namespace unicode_detail {

ClassTable::ClassTable() {
  std::map<std::array<CharClass, 256>, uint16_t> seen;
  for (uint32_t index = 0; index < block.size(); ++index) {
    std::array<CharClass, 256> cell{};
    for (uint32_t i = 0; i < 256; ++i) {
      cell[i] = class_of(static_cast<int32_t>(index * 256 + i));
    }
    const auto [at, is_new] = seen.emplace(cell, static_cast<uint16_t>(cells.size()));
    if (is_new) {
      cells.push_back(cell);
    }
    block[index] = at->second;
  }
}

const ClassTable& class_table() {
  static const ClassTable table;
  return table;
}

}  // namespace unicode_detail
}  // namespace mstrain
