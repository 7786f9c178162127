#include "core/data/jinja/text.h"

#include <algorithm>
#include <iterator>

namespace mstrain::jinja {
namespace {

constexpr std::string_view kWideSpaces[] = {
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

}  // namespace

size_t space_size(std::string_view bytes, size_t at) {
  const auto first = static_cast<unsigned char>(bytes[at]);
  if (first < 0x80) {
    return first == ' ' || (first >= 9 && first <= 13) || (first >= 28 && first <= 31) ? 1 : 0;
  }
  const auto found =
      std::find_if(std::begin(kWideSpaces), std::end(kWideSpaces),
                   [&](std::string_view space) { return bytes.substr(at).starts_with(space); });
  return found == std::end(kWideSpaces) ? 0 : found->size();
}

std::string_view without_leading_space(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = space_size(bytes, 0);
    if (size == 0) {
      break;
    }
    bytes.remove_prefix(size);
  }
  return bytes;
}

std::string_view without_trailing_space(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t begin = bytes.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(bytes[begin]) & 0xC0) == 0x80) {
      --begin;
    }
    if (space_size(bytes, begin) != bytes.size() - begin) {
      break;
    }
    bytes = bytes.substr(0, begin);
  }
  return bytes;
}

}  // namespace mstrain::jinja
