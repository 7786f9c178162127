#include "core/base/base64.h"

#include <cstdint>

namespace mstrain {

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < three.size() ? static_cast<uint8_t>(three[i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      out.push_back(i <= three.size() ? kLetters[bits >> (18 - 6 * i) & 63U] : '=');
    }
  }
  return out;
}

}  // namespace mstrain
