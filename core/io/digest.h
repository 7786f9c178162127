// Checksums of files: CRC-32C (Castagnoli; what TensorBoard's records carry) and SHA-256 (FIPS 180-4; what manifests
// carry, so that `sha256sum` checks them).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace mstrain {

// The CRC of what `previous` is the CRC of, followed by `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous = 0);

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256();
  Sha256& add(std::span<const std::byte> bytes);
  Digest finish();           // ends the stream; start a new object for the next
  std::string finish_hex();  // 64 lower-case digits

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace mstrain
