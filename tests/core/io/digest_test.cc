#include "core/io/digest.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/files.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\0'))), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(as_bytes("6789"), crc32c(as_bytes("12345"))), 0xE3069283U);
}

// FIPS 180-4 examples and the empty string.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Digest, DoesNotDependOnHowTheDataIsCut) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    std::string data(rng.below(400), '\0');
    for (char& c : data) {
      c = static_cast<char>(rng.next_u32());
    }
    Sha256 pieces;
    uint32_t crc = 0;
    for (size_t at = 0; at < data.size();) {
      const size_t size = std::min<size_t>(data.size() - at, rng.below(130));
      pieces.add(as_bytes(data).subspan(at, size));
      crc = crc32c(as_bytes(data).subspan(at, size), crc);
      at += size;
    }
    EXPECT_EQ(pieces.finish_hex(), sha256_hex(data));
    EXPECT_EQ(crc, crc32c(as_bytes(data)));
  }
}

}  // namespace
}  // namespace mstrain
