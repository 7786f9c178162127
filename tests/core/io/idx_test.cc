#include "core/io/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// u8 [2, 3] = "abcdef".
const std::string kPlain(
    "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
    "abcdef",
    18);
// The same through `gzip -n`.
const std::string kZipped(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\xe0\x60\x62\x60\x60\x00\x61\xe6\xc4\xa4\xe4"
    "\x94\xd4\x34\x00\x83\xda\x46\x2f\x12\x00\x00\x00",
    35);

std::string idx_error(std::string_view file, uint64_t max_bytes = 1 << 20) {
  try {
    parse_idx(as_bytes(file), "x.idx", max_bytes);
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("x.idx: "));
    return error.what();
  }
  return "no error";
}

TEST(Idx, ReadsPlainAndGzippedAlike) {
  for (const std::string& file : {kPlain, kZipped}) {
    const IdxArray array = parse_idx(as_bytes(file), "x");
    EXPECT_EQ(array.dtype, Dtype::kU8);
    EXPECT_THAT(array.shape, ElementsAre(2, 3));
    EXPECT_EQ(as_text(array.data), "abcdef");
  }
}

TEST(Idx, WideTypesAreSwapped) {
  const IdxArray ints = parse_idx(
      as_bytes(std::string_view("\0\0\x0c\x01\0\0\0\x02\0\0\1\2\xff\xff\xff\xfe", 16)), "x");
  int32_t values[2];
  std::memcpy(values, ints.data.data(), 8);
  EXPECT_EQ(values[0], 258);
  EXPECT_EQ(values[1], -2);
  const IdxArray floats =
      parse_idx(as_bytes(std::string_view("\0\0\x0d\x01\0\0\0\1\x3f\x80\0\0", 12)), "x");
  float one = 0;
  std::memcpy(&one, floats.data.data(), 4);
  EXPECT_EQ(one, 1.0F);
}

TEST(Idx, RefusesEveryKnownTrap) {
  EXPECT_THAT(idx_error(""), HasSubstr("not an IDX file"));
  EXPECT_THAT(idx_error(std::string("\0\1\x08\1", 4)), HasSubstr("not an IDX file"));
  EXPECT_THAT(idx_error(std::string("\0\0\x07\1", 4)), HasSubstr("type 0x07"));
  EXPECT_THAT(idx_error(std::string("\0\0\x0b\1", 4)), HasSubstr("i16"));
  EXPECT_THAT(idx_error(std::string("\0\0\x08\0", 4)), HasSubstr("0 dimensions"));
  EXPECT_THAT(idx_error(std::string("\0\0\x08\x09", 4)), HasSubstr("9 dimensions"));
  EXPECT_THAT(idx_error(kPlain.substr(0, 10)), HasSubstr("cut short"));
  EXPECT_THAT(idx_error(kPlain.substr(0, 17)),
              HasSubstr("takes 6 bytes of data, the file holds 5"));
  EXPECT_THAT(idx_error(kPlain + "x"), HasSubstr("offset 18: holds more data"));
  EXPECT_THAT(idx_error(kPlain, 5), HasSubstr("at most 5"));
  EXPECT_THAT(idx_error(std::string("\0\0\x08\x03", 4) + std::string(12, '\xff')),
              HasSubstr("overflow"));
  EXPECT_THAT(idx_error(std::string("\0\0\x08\1\xff\xff\xff\xff", 8), UINT64_MAX),
              HasSubstr("the file holds 0"));
}

TEST(Idx, RefusesDamagedGzip) {
  for (size_t size = 2; size < kZipped.size(); ++size) {
    EXPECT_NE(idx_error(kZipped.substr(0, size)), "no error") << size;
  }
  std::string wrong_crc = kZipped;
  wrong_crc[kZipped.size() - 8] = static_cast<char>(wrong_crc[kZipped.size() - 8] ^ 1);
  EXPECT_THAT(idx_error(wrong_crc), HasSubstr("damaged"));
  std::string wrong_size = kZipped;
  wrong_size[kZipped.size() - 4] = 0x13;
  EXPECT_THAT(idx_error(wrong_size), HasSubstr("damaged"));
  EXPECT_THAT(idx_error(kZipped + kZipped), HasSubstr("follows the gzip stream"));
  EXPECT_THAT(idx_error(kZipped + "x"), HasSubstr("follows the gzip stream"));
}

TEST(Idx, FuzzedFilesNeverCrash) {
  Rng rng(70);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string file = rng.below(2) == 0 ? kPlain : kZipped;
    for (uint64_t edits = rng.below(3); edits > 0; --edits) {
      file[rng.below(file.size())] = static_cast<char>(rng.below(256));
    }
    if (rng.below(4) == 0) {
      file.resize(rng.below(file.size() + 1));
    }
    try {
      const IdxArray array = parse_idx(as_bytes(file), "fuzz", 1 << 20);
      ++accepted;
      ASSERT_LE(array.data.size(), 1U << 20);
    } catch (const IoError& error) {
      ASSERT_THAT(error.what(), testing::StartsWith("fuzz: offset "));
    }
  }
  EXPECT_GT(accepted, 1000);
}

TEST(Idx, LabelsMustFitTheirImages) {
  const TemporaryFolder folder;
  const auto labels = [&](const std::string& values) {
    std::string file("\0\0\x08\1\0\0\0", 7);
    file += static_cast<char>(values.size());
    write_file_atomic(real_files(), folder / "labels", file + values);
  };
  write_file_atomic(real_files(), folder / "images",
                    std::string("\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2", 16) + "abcd");
  const auto read = [&] {
    return read_labeled_images(real_files(), folder / "images", folder / "labels", 10);
  };
  labels("\x03\x09");
  EXPECT_EQ(as_text(read().labels.data), "\x03\x09");
  labels("\x03");
  EXPECT_THROW(read(), IoError);
  labels("\x03\x0a");
  EXPECT_THAT([&] { read(); },
              testing::ThrowsMessage<IoError>(HasSubstr("labels: offset 9: label 10 of image 1")));
  write_file_atomic(real_files(), folder / "labels", kPlain);
  EXPECT_THROW(read(), IoError);
}

}  // namespace
}  // namespace mstrain
