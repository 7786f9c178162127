#include "core/io/digest.h"

#include <fmt/core.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace mstrain {

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

std::string Sha256::finish_hex() {
  std::string hex;
  for (const uint8_t byte : finish()) {
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  return Sha256().add(bytes).finish_hex();
}
std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace mstrain
