#include <cstring>

#include "core/io/digest.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace mstrain {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(std::span<const std::byte> bytes,
                                                        uint32_t previous) {
  uint64_t crc = ~previous;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto narrow = static_cast<uint32_t>(crc);
  for (; left > 0; --left, ++at) {
    narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(*at));
  }
  return ~narrow;
}
#endif

}  // namespace

uint32_t digest_detail::crc32c_portable(std::span<const std::byte> bytes, uint32_t previous) {
  uint32_t crc = ~previous;
  for (const std::byte byte : bytes) {
    crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xffU] ^ (crc >> 8);
  }
  return ~crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (has_sse42) {
    return crc32c_sse42(bytes, previous);
  }
#endif
  return digest_detail::crc32c_portable(bytes, previous);
}

}  // namespace mstrain
