#include "core/io/npy.h"

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

std::string npy_of(std::string header, std::string_view data, char version = 1) {
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  out += static_cast<char>(header.size());
  out += static_cast<char>(header.size() >> 8);
  if (version > 1) {
    out += std::string(2, '\0');
  }
  return out + header + std::string(data);
}

std::string npy_error(std::string_view file) {
  try {
    parse_npy(as_bytes(file), "x.npy");
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("x.npy: "));
    return error.what();
  }
  return "no error";
}

// What numpy.save writes for arange(6, dtype='<f4').reshape(2, 3).
std::string numpy_file() {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(117, ' ');
  std::string data;
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(i);
    data.append(reinterpret_cast<const char*>(&value), 4);
  }
  return npy_of(header + '\n', data);
}

TEST(Npy, WritesWhatNumpyWrites) {
  const TemporaryFolder folder;
  const std::string expected = numpy_file();
  ASSERT_EQ(expected.substr(0, 10), std::string("\x93NUMPY\x01\x00v\x00", 10));
  const float values[6] = {0, 1, 2, 3, 4, 5};
  const int64_t shape[2] = {2, 3};
  write_npy(real_files(), folder / "a.npy", Dtype::kF32, shape, std::as_bytes(std::span(values)));
  EXPECT_EQ(real_files().read(folder / "a.npy"), expected);
  const NpyArray array = read_npy(real_files(), folder / "a.npy");
  EXPECT_EQ(array.dtype, Dtype::kF32);
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(array.data.data(), values, sizeof values), 0);
  // Where it lies.
  const NpyView view = view_npy(as_bytes(expected), "a.npy");
  EXPECT_EQ(view.dtype, Dtype::kF32);
  EXPECT_EQ(view.shape, array.shape);
  EXPECT_EQ(view.data.data(), as_bytes(expected).data() + 128);
  EXPECT_EQ(std::memcmp(view.data.data(), values, sizeof values), 0);
}

TEST(Npy, EveryDtypeAndRankRoundTrips) {
  for (const Dtype dtype : kAllDtypes) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{}, {3}, {0}, {2, 0, 3}, {1, 2, 3, 4}}) {
      size_t bytes = static_cast<size_t>(size_of(dtype));
      for (const int64_t dim : shape) {
        bytes *= static_cast<size_t>(dim);
      }
      const std::string data(bytes, '\1');
      if (dtype == Dtype::kBF16) {
        EXPECT_THROW(print_npy(dtype, shape, as_bytes(data)), Error);
        continue;
      }
      const std::string file = print_npy(dtype, shape, as_bytes(data));
      EXPECT_EQ((file.size() - bytes) % 64, 0U);
      const NpyArray array = parse_npy(as_bytes(file), "x");
      EXPECT_EQ(array.dtype, dtype);
      EXPECT_EQ(array.shape, shape);
      EXPECT_EQ(as_text(array.data), data);
    }
  }
}

TEST(Npy, TakesKeysInAnyOrderAndOtherVersions) {
  for (const char version : {1, 2, 3}) {
    const std::string file =
        npy_of("{\"shape\":(2,),'fortran_order':False , 'descr':'|u1'}", "ab", version);
    EXPECT_EQ(as_text(parse_npy(as_bytes(file), "x").data), "ab");
  }
}

TEST(Npy, ColumnMajorBecomesRowMajor) {
  const std::string file =
      npy_of("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", "adbecf");
  EXPECT_EQ(as_text(parse_npy(as_bytes(file), "x").data), "abcdef");
  const std::string cube =
      npy_of("{'descr': '<u2', 'fortran_order': True, 'shape': (2, 1, 2)}", "a0c0b0d0");
  EXPECT_EQ(as_text(parse_npy(as_bytes(cube), "x").data), "a0b0c0d0");
}

TEST(Npy, RefusesEveryKnownTrap) {
  const auto header = [](const std::string& descr, const std::string& shape) {
    return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}";
  };
  EXPECT_THAT(npy_error("hello"), HasSubstr("not a NumPy file"));
  EXPECT_THAT(npy_error(npy_of("", "", 4)), HasSubstr("format 4.0"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\1\0\xff\x1f{}", 12)), HasSubstr("cut short"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14)),
              HasSubstr("at most 10000"));
  EXPECT_THAT(npy_error(std::string("\x93NUMPY\2\0\1\0", 10)), HasSubstr("cut short"));
  EXPECT_THAT(npy_error(npy_of(header("'|O'", "(1,)"), "12345678")), HasSubstr("can run code"));
  EXPECT_THAT(npy_error(npy_of(header("'>f4'", "(1,)"), "1234")), HasSubstr("big-endian"));
  EXPECT_THAT(npy_error(npy_of(header("'<c8'", "(1,)"), "12345678")),
              HasSubstr("'<c8' is not supported"));
  EXPECT_THAT(npy_error(npy_of(header("''", "(1,)"), "1")), HasSubstr("'' is not supported"));
  EXPECT_THAT(npy_error(npy_of(header("[('a', '<f4')]", "(1,)"), "1234")), HasSubstr("structured"));
  EXPECT_THAT(npy_error(npy_of(header("'|u1'", "(-1,)"), "")), HasSubstr("expected a size"));
  EXPECT_THAT(npy_error(npy_of(header("'|u1'", "(99999999999999999999,)"), "")),
              HasSubstr("overflows"));
  EXPECT_THAT(npy_error(npy_of(header("'<f8'", "(4294967296, 4294967296)"), "")),
              HasSubstr("overflows"));
  EXPECT_THAT(npy_error(npy_of(header("'|u1'", "(3,)"), "ab")),
              HasSubstr("takes 3 bytes, the file holds 2"));
  EXPECT_THAT(npy_error(npy_of(header("'|u1'", "(1,)"), "ab")),
              HasSubstr("takes 1 bytes, the file holds 2"));
  EXPECT_THAT(
      npy_error(npy_of("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'x': 1}", "a")),
      HasSubstr("unexpected key 'x'"));
  EXPECT_THAT(npy_error(npy_of("{'descr': '|u1', 'descr': '|u1'}", "a")),
              HasSubstr("unexpected key"));
  EXPECT_THAT(npy_error(npy_of("{'descr': '|u1', 'fortran_order': 0}", "a")),
              HasSubstr("neither True nor False"));
  EXPECT_THAT(npy_error(npy_of("{}", "")), HasSubstr("expected descr"));
  EXPECT_THAT(npy_error(npy_of("{'descr", "")), HasSubstr("without end"));
}

TEST(Npy, FuzzedFilesNeverCrash) {
  Rng rng(60);
  const std::string seed =
      npy_of("{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3), }", "abcdefghijkl");
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string file = seed;
    for (uint64_t edits = rng.below(3); edits > 0; --edits) {
      const size_t at = rng.below(file.size());
      switch (rng.below(3)) {
        case 0: file[at] = static_cast<char>(rng.below(256)); break;
        case 1: file[at] = "0123456789(){},:' "[rng.below(18)]; break;
        default: file.erase(at, 1 + rng.below(3)); break;
      }
      file += file.empty() ? "x" : "";
    }
    try {
      const NpyArray array = parse_npy(as_bytes(file), "fuzz");
      ++accepted;
      ASSERT_LE(array.data.size(), file.size());
    } catch (const IoError&) {
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace mstrain
