// Checksums of files: CRC-32C (Castagnoli; what TensorBoard's records carry) and SHA-256 (FIPS 180-4; what manifests
// carry, so that `sha256sum` checks them). Both use the processor's instructions where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mstrain {

// The CRC of what `previous` is the CRC of, followed by `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous = 0);

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256& add(std::span<const std::byte> bytes);
  Digest finish();           // ends the stream; start a new object for the next
  std::string finish_hex();  // 64 lower-case digits

 private:
  std::array<uint32_t, 8> state_{0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                 0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
  std::array<uint8_t, 64> block_{};
  uint64_t length_ = 0;  // bytes
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

namespace digest_detail {
// The portable versions, for tests that compare them with the fast ones.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t previous);
void sha256_blocks_portable(std::array<uint32_t, 8>& state, const uint8_t* data, size_t blocks);
void sha256_blocks(std::array<uint32_t, 8>& state, const uint8_t* data, size_t blocks);
}  // namespace digest_detail

}  // namespace mstrain
