#include "core/data/charsmap.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

uint32_t read_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return value;
}

// Fields of a unit of the double array.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1U) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFU; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FFU; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 0x200U) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, std::string source) : source_(std::move(source)) {
  if (blob.empty()) {
    return;
  }
  const size_t size = blob.size() < 4 ? 0 : read_u32(blob);
  if (size == 0 || size % 4 != 0 || size > blob.size() - 4) {
    throw IoError(fmt::format("{}: the character map of {} bytes has a trie of {} bytes", source_,
                              blob.size(), size));
  }
  for (size_t at = 4; at < 4 + size; at += 4) {
    trie_.push_back(read_u32(blob.substr(at)));
  }
  replacements_ = blob.substr(4 + size);
  if (!replacements_.empty() && replacements_.back() != '\0') {
    throw IoError(fmt::format("{}: the character map is cut short", source_));
  }
}

uint32_t Charsmap::unit(size_t at) const {
  if (at >= trie_.size()) {
    throw IoError(
        fmt::format("{}: the character map is damaged: unit {} of {}", source_, at, trie_.size()));
  }
  return trie_[at];
}

Charsmap::Found Charsmap::longest(std::string_view text) const {
  Found found;
  if (trie_.empty()) {
    return found;
  }
  uint32_t node = offset_of(unit(0));
  const size_t end = std::min(text.size(), kLongestKey);
  for (size_t i = 0; i < end; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    // A byte without a way on may point beyond the end of a sound trie.
    if (node >= trie_.size() || label_of(trie_[node]) != byte) {
      break;
    }
    const uint32_t here = trie_[node];
    node ^= offset_of(here);
    if (has_leaf(here)) {
      const uint32_t value = value_of(unit(node));
      if (value >= replacements_.size()) {
        throw IoError(fmt::format("{}: the character map is damaged: replacement at {} of {}",
                                  source_, value, replacements_.size()));
      }
      found = {i + 1, std::string_view(replacements_.c_str() + value)};
    }
  }
  return found;
}

}  // namespace mstrain
