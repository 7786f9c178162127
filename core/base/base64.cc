#include "core/base/base64.h"

#include <array>
#include <cstdint>

namespace mstrain {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> numbers_of_letters() {
  std::array<int8_t, 256> out{};
  out.fill(-1);
  for (size_t i = 0; i < kLetters.size(); ++i) {
    out[static_cast<uint8_t>(kLetters[i])] = static_cast<int8_t>(i);
  }
  return out;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
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

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::array<int8_t, 256> kNumbers = numbers_of_letters();
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    const bool is_last = at + 4 == text.size();
    const size_t letters = is_last && text[at + 3] == '=' ? (text[at + 2] == '=' ? 2 : 3) : 4;
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) {
      const int number = i < letters ? kNumbers[static_cast<uint8_t>(text[at + i])] : 0;
      if (number < 0) {
        return std::nullopt;
      }
      bits = bits << 6 | static_cast<uint32_t>(number);
    }
    if ((bits & (0xFFFFFFU >> 8 * (letters - 1))) != 0) {
      return std::nullopt;  // bits of no byte
    }
    for (size_t i = 0; i + 1 < letters; ++i) {
      out.push_back(static_cast<char>(bits >> (16 - 8 * i) & 0xFFU));
    }
  }
  return out;
}

}  // namespace mstrain
