#include "core/io/digest.h"

#include <fmt/core.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace mstrain {
namespace {

std::string hex_of(const Sha256::Digest& digest) {
  std::string hex;
  for (const uint8_t byte : digest) {
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous) {
  constexpr size_t kMost = std::numeric_limits<int>::max();  // the library's lengths are int
  uint32_t crc = ~previous;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);  // only reads
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

void Sha256::FreeContext::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
        "OpenSSL could not begin a SHA-256");
}

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
        "OpenSSL could not go on with a SHA-256");
  return *this;
}

Sha256::Digest Sha256::finish() {
  Digest digest{};
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1,
        "OpenSSL could not end a SHA-256");
  return digest;
}

std::string Sha256::finish_hex() { return hex_of(finish()); }

FileSummary summary_of(uint64_t size, std::span<const Sha256::Digest> digests) {
  if (digests.size() == 1) {
    return {size, hex_of(digests[0])};
  }
  Sha256 all;
  for (const Sha256::Digest& digest : digests) {
    all.add(std::as_bytes(std::span(digest)));
  }
  return {size, all.finish_hex(), /*of_blocks=*/true};
}

void FileDigest::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const uint64_t in_block = size_ % kDigestBlock;
    if (in_block == 0 && size_ > 0) {
      digests_.push_back(std::exchange(block_, Sha256()).finish());
    }
    const auto part = bytes.first(std::min<uint64_t>(bytes.size(), kDigestBlock - in_block));
    block_.add(part);
    size_ += part.size();
    bytes = bytes.subspan(part.size());
  }
}

FileSummary FileDigest::finish() {
  digests_.push_back(block_.finish());
  return summary_of(size_, digests_);
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  return Sha256().add(bytes).finish_hex();
}
std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace mstrain
