// Checksums of files: CRC-32C (Castagnoli; what TensorBoard's records carry) and SHA-256 (FIPS 180-4; what manifests
// carry, so that `sha256sum` checks the file, or the blocks of a large one).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// What is known of a file's bytes.
struct FileSummary {
  uint64_t size = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits
  // Of the digests of the file's blocks, one after another, instead of the bytes: several can then form it together.
  bool of_blocks = false;
  bool operator==(const FileSummary&) const = default;
};

// Blocks of a file have so many bytes each, but for the last; one of a single block is known by the digest of its bytes.
inline constexpr uint64_t kDigestBlock = 64 << 20;
// `digests`: of all blocks; of an empty file that of none.
FileSummary summary_of(uint64_t size, std::span<const Sha256::Digest> digests);

// The summary of bytes that come one after another.
class FileDigest {
 public:
  void add(std::span<const std::byte> bytes);
  FileSummary finish();

 private:
  Sha256 block_;
  uint64_t size_ = 0;
  std::vector<Sha256::Digest> digests_;  // of complete blocks
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace mstrain
