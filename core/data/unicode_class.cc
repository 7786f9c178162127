#include "core/data/unicode_class.h"

#include <map>

namespace mstrain::unicode_detail {

ClassTable::ClassTable() {
  std::map<std::array<CharClass, 256>, uint16_t> seen;
  size_t run = 0;
  for (uint32_t index = 0; index < block.size(); ++index) {
    std::array<CharClass, 256> cell{};
    for (uint32_t i = 0; i < 256; ++i) {
      while (run + 1 < kRunCount && kRuns[run + 1] >> 2 <= index * 256 + i) {
        ++run;
      }
      cell[i] = static_cast<CharClass>(kRuns[run] & 3);
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

}  // namespace mstrain::unicode_detail
