#include "core/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "core/base/rng.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string safetensors_of(std::string_view header, std::string_view data) {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out += static_cast<char>(header.size() >> (8 * i));
  }
  return out + std::string(header) + std::string(data);
}

std::string safetensors_error(std::string_view file) {
  try {
    const SafetensorsFile reader(as_bytes(file), "m.safetensors");
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("m.safetensors: "));
    return error.what();
  }
  return "no error";
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return R"({"a":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) +
         R"(,"data_offsets":)" + std::string(offsets) + "}}";
}

// The reference vector: tensor a = [1, 2] in F32, header of 56 bytes.
const std::string kVector = std::string("\x38\0\0\0\0\0\0\0", 8) +
                            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )" +
                            std::string("\0\0\x80\x3f\0\0\0\x40", 8);

TEST(Safetensors, ReadsTheReferenceVector) {
  const SafetensorsFile file(as_bytes(kVector), "v");
  ASSERT_EQ(file.entries().size(), 1U);
  const TensorEntry& a = file.at("a");
  EXPECT_EQ(a.dtype, Dtype::kF32);
  EXPECT_THAT(a.shape, ElementsAre(2));
  EXPECT_EQ(as_text(file.data("a")), kVector.substr(64));
  EXPECT_TRUE(file.metadata().empty());
  EXPECT_FALSE(file.contains("b"));
}

TEST(Safetensors, WritesTheReferenceVector) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(real_files(), folder / "a", {{"a", Dtype::kF32, {2}}});
  writer.append("a", as_bytes(std::string_view(kVector).substr(64)));
  writer.finish();
  EXPECT_EQ(real_files().read(folder / "a"), kVector);
}

TEST(Safetensors, EveryDtypeRoundTripsWideOnesFirst) {
  const TemporaryFolder folder;
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const Dtype dtype : kAllDtypes) {
    tensors.push_back({"t_" + std::string(name_of(dtype)), dtype, {3, 5}});
  }
  tensors.push_back({"scalar", Dtype::kF32, {}});
  tensors.push_back({"empty", Dtype::kF32, {0, 7}});
  tensors.push_back({"\xc3\xa9\"\\\n", Dtype::kU8, {1}});
  AtomicFile out(real_files(), folder / "a");
  SafetensorsWriter writer(out, tensors, {{"format", "pt"}, {"note", "\"x\""}});
  std::map<std::string, std::string> expected;
  Rng rng(50);
  uint64_t last = 8;
  for (const TensorEntry& item : writer.entries()) {
    EXPECT_LE(item.bytes == 0 ? last : static_cast<uint64_t>(size_of(*item.dtype)), last);
    last = static_cast<uint64_t>(size_of(*item.dtype));
    EXPECT_EQ(item.offset % last, 0U);
    std::string& data = expected[item.name];
    data.resize(item.bytes);
    for (char& c : data) {
      c = static_cast<char>(rng.next_u32());
    }
    for (size_t at = 0; at < data.size(); at += 7) {
      writer.append(item.name, as_bytes(std::string_view(data).substr(at, 7)));
    }
  }
  writer.finish();
  const FileSummary summary = out.commit();
  EXPECT_EQ(summary, summarize_file(real_files(), folder / "a"));
  const SafetensorsFile file(real_files(), folder / "a");
  EXPECT_EQ(file.entries().size(), tensors.size());
  EXPECT_THAT(file.metadata(),
              ElementsAre(testing::Pair("format", "pt"), testing::Pair("note", "\"x\"")));
  for (const auto& [name, data] : expected) {
    EXPECT_EQ(as_text(file.data(name)), data) << name;
  }
  EXPECT_TRUE(file.at("scalar").shape.empty());
  EXPECT_EQ(file.at("scalar").bytes, 4U);
}

TEST(Safetensors, WriterRefusesWhatNoReaderWouldAccept) {
  const TemporaryFolder folder;
  const auto writer = [&](std::vector<SafetensorsWriter::Tensor> tensors) {
    return SafetensorsWriter(real_files(), folder / "a", tensors);
  };
  EXPECT_THROW(writer({{"a", Dtype::kF32, {1}}, {"a", Dtype::kI8, {1}}}), Error);
  EXPECT_THROW(writer({{"__metadata__", Dtype::kF32, {1}}}), Error);
  EXPECT_THROW(writer({{"a", Dtype::kF32, {-1}}}), Error);
  EXPECT_THROW(writer({{"a", Dtype::kF32, {INT64_MAX, INT64_MAX}}}), Error);
  EXPECT_THROW(writer({{"\xff", Dtype::kF32, {1}}}), Error);
  {
    auto out = writer({{"a", Dtype::kU8, {2}}, {"b", Dtype::kU8, {0}}, {"c", Dtype::kU8, {2}}});
    EXPECT_THROW(out.append("c", as_bytes("12")), Error);
    out.append("a", as_bytes("1"));
    EXPECT_THROW(out.append("a", as_bytes("23")), Error);
    EXPECT_THROW(out.append("c", as_bytes("12")), Error);
    out.append("a", as_bytes("2"));
    out.append("b", {});
    out.append("c", as_bytes("3"));
    EXPECT_THROW(out.append("a", as_bytes("1")), Error);
    EXPECT_THROW(out.finish(), Error);
  }
  EXPECT_TRUE(real_files().list(folder.path()).empty());
}

TEST(Safetensors, EmptyFileOfTensorsIsLegal) {
  const TemporaryFolder folder;
  SafetensorsWriter(real_files(), folder / "a", {}, {{"format", "pt"}}).finish();
  const SafetensorsFile file(real_files(), folder / "a");
  EXPECT_TRUE(file.entries().empty());
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(Safetensors, ForeignDtypesAreListedButNotRead) {
  const std::string bytes = safetensors_of(entry("F8_E4M3", "[4]", "[0,4]"), "1234");
  const SafetensorsFile file(as_bytes(bytes), "m");
  EXPECT_EQ(file.at("a").dtype_name, "F8_E4M3");
  EXPECT_FALSE(file.at("a").dtype.has_value());
  try {
    file.data("a");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "m: tensor \"a\" has dtype F8_E4M3, which is not supported");
  }
  EXPECT_THAT(safetensors_error(safetensors_of(entry("F8_E4M3", "[5]", "[0,4]"), "1234")),
              HasSubstr("do not hold 5 bytes"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("F4", "[8]", "[0,4]"), "1234")),
              HasSubstr("unknown dtype"));
}

TEST(Safetensors, MissingNamesGetASuggestion) {
  const std::string bytes =
      safetensors_of(R"({"wte.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1");
  const SafetensorsFile file(as_bytes(bytes), "m");
  try {
    file.at("wte.wieght");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(), "m: has no tensor \"wte.wieght\"; did you mean wte.weight?");
  }
}

TEST(Safetensors, RefusesEveryKnownTrap) {
  EXPECT_THAT(safetensors_error("1234567"), HasSubstr("too few"));
  EXPECT_THAT(safetensors_error(std::string(8, '\0')), HasSubstr("header of 0 bytes"));
  EXPECT_THAT(safetensors_error(std::string(8, '\xff') + "{}"),
              HasSubstr("not a safetensors file"));
  EXPECT_THAT(safetensors_error(std::string("\x10\0\0\0\0\0\0\0{}", 10)), HasSubstr("cut short"));
  EXPECT_THAT(safetensors_error(safetensors_of(" {}", "")), HasSubstr("does not begin with {"));
  EXPECT_THAT(safetensors_error(safetensors_of("[]", "")), HasSubstr("does not begin with {"));
  EXPECT_THAT(safetensors_error(safetensors_of("{\"a\xff\":1}", "")), HasSubstr("UTF-8"));
  EXPECT_THAT(safetensors_error(safetensors_of("{} x", "")), HasSubstr("offset"));
  EXPECT_THAT(safetensors_error(safetensors_of("{", "")), HasSubstr("offset"));
  EXPECT_THAT(safetensors_error(safetensors_of("{" + std::string(100000, '['), "")),
              HasSubstr("offset"));
  EXPECT_THAT(safetensors_error(safetensors_of(R"({"a":)" + std::string(100000, '[') + "}", "")),
              HasSubstr("nested deeper"));
  const std::string item = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(safetensors_error(safetensors_of("{\"a\":" + item + ",\"a\":" + item + "}", "1")),
              HasSubstr("duplicate key"));
  EXPECT_THAT(safetensors_error(safetensors_of(R"({"a":1})", "")), HasSubstr("exactly the keys"));
  EXPECT_THAT(safetensors_error(safetensors_of(
                  R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", "1")),
              HasSubstr("exactly the keys"));
  EXPECT_THAT(safetensors_error(safetensors_of(R"({"__metadata__":{"a":1}})", "")),
              HasSubstr("is no text"));
  EXPECT_THAT(safetensors_error(safetensors_of(R"({"__metadata__":[]})", "")),
              HasSubstr("is no map"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("XYZ", "[1]", "[0,1]"), "1")),
              HasSubstr("unknown dtype"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[1]", "[1,0]"), "1")),
              HasSubstr("do not hold"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[1]", "[0,2]"), "12")),
              HasSubstr("do not hold"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[1]", "[0,1]"), "12")),
              HasSubstr("tensors fill 1 bytes"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[3]", "[0,3]"), "12")),
              HasSubstr("cut short"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[1]", "[1,2]"), "12")),
              HasSubstr("hole"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[-1]", "[0,1]"), "1")),
              HasSubstr("expected an integer"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[1.0]", "[0,1]"), "1")),
              HasSubstr("expected an integer"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[9007199254740993]", "[0,1]"), "1")),
              HasSubstr("expected an integer"));
  EXPECT_THAT(
      safetensors_error(safetensors_of(entry("U8", "[4294967296,4294967296]", "[0,0]"), "")),
      HasSubstr("overflows"));
  EXPECT_THAT(
      safetensors_error(safetensors_of(entry("F64", "[9007199254740992,512]", "[0,0]"), "")),
      HasSubstr("overflows"));
  EXPECT_THAT(safetensors_error(safetensors_of(
                  entry("F64", "[0,9007199254740992,9007199254740992]", "[0,0]"), "")),
              HasSubstr("overflows"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "[1]", "[0]"), "1")),
              HasSubstr("no pair"));
  EXPECT_THAT(safetensors_error(safetensors_of(entry("U8", "1", "[0,1]"), "1")),
              HasSubstr("shape is no list"));
  EXPECT_THAT(safetensors_error(
                  safetensors_of(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", "1")),
              HasSubstr("dtype is no text"));
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(safetensors_error(safetensors_of(two("[2,4]", "[0,2]"), "1234")), "no error");
  EXPECT_THAT(safetensors_error(safetensors_of(two("[0,2]", "[1,3]"), "123")),
              HasSubstr("overlap"));
  EXPECT_THAT(safetensors_error(safetensors_of(two("[0,2]", "[0,2]"), "12")), HasSubstr("overlap"));
  EXPECT_THAT(safetensors_error(safetensors_of(two("[0,2]", "[3,5]"), "12345")), HasSubstr("hole"));
}

TEST(Safetensors, ErrorsTellWhereInTheFile) {
  EXPECT_THAT(safetensors_error("1234567"),
              StartsWith("m.safetensors: offset 0: 7 bytes are too few"));
  EXPECT_THAT(safetensors_error(safetensors_of("[]", "")), StartsWith("m.safetensors: offset 8: "));
  EXPECT_THAT(safetensors_error(safetensors_of("{\"a\" 1}", "")),
              StartsWith("m.safetensors: header at offset 8: offset 6: "));
  EXPECT_THAT(safetensors_error(safetensors_of("{  \"a\":1}", "")),
              StartsWith("m.safetensors: offset 11: "));
  const std::string bad = entry("U8", "[1]", "[1,2]");
  EXPECT_THAT(safetensors_error(safetensors_of(bad, "1")),
              StartsWith(fmt::format("m.safetensors: offset {}: ", 8 + bad.size())));
  const std::string good = entry("U8", "[1]", "[0,1]");
  EXPECT_THAT(safetensors_error(safetensors_of(good, "12")),
              StartsWith(fmt::format("m.safetensors: offset {}: ", 8 + good.size() + 1)));
}

TEST(Safetensors, FuzzedFilesNeverCrash) {
  Rng rng(51);
  std::string seed = safetensors_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"c":{"dtype":"I64","shape":[0],"data_offsets":[26,26]}})",
      std::string(26, 'x'));
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string file = seed;
    for (uint64_t edits = rng.below(3); edits > 0; --edits) {
      const size_t at = rng.below(file.size());
      switch (rng.below(4)) {
        case 0: file[at] = static_cast<char>(rng.below(256)); break;
        case 1: file[at] = "0123456789[]{},:\""[rng.below(17)]; break;
        case 2: file.erase(at, 1 + rng.below(3)); break;
        default: file.insert(at, file.substr(rng.below(file.size()), rng.below(4))); break;
      }
      file += file.empty() ? "x" : "";
    }
    try {
      const SafetensorsFile reader(as_bytes(file), "fuzz");
      ++accepted;
      uint64_t total = 0;
      for (const TensorEntry& item : reader.entries()) {
        total += item.bytes;
        if (item.dtype) {
          ASSERT_EQ(reader.data(item).size(), item.bytes);
        }
      }
      ASSERT_LE(total, file.size());
    } catch (const IoError& error) {
      ASSERT_THAT(error.what(), AllOf(StartsWith("fuzz: "), HasSubstr("offset ")));
    }
  }
  EXPECT_GT(accepted, 1000);
}

TEST(Safetensors, EveryFailPointLeavesTheOldOrTheNewFile) {
  const auto save = [](FileSystem& files, const std::string& path, const char* text) {
    SafetensorsWriter writer(files, path, {{"a", Dtype::kU8, {3}}, {"b", Dtype::kU8, {3}}});
    writer.append("a", as_bytes(text));
    writer.append("b", as_bytes(text));
    writer.finish();
  };
  const auto load = [](const std::string& path) {
    return std::string(as_text(SafetensorsFile(real_files(), path).data("b")));
  };
  for (const bool power_off : {false, true}) {
    for (int64_t n = 0;; ++n) {
      const TemporaryFolder folder;
      save(real_files(), folder / "m", "old");
      FaultyFiles files(real_files(),
                        power_off ? Faults{.power_off_operation = n} : Faults{.fail_operation = n});
      bool failed = false;
      try {
        save(files, folder / "m", "new");
      } catch (const IoError&) {
        failed = true;
      }
      if (power_off || !failed) {
        files.crash();
      }
      const std::string now = load(folder / "m");
      EXPECT_TRUE(now == "new" || (failed && now == "old")) << n;
      if (!failed) {
        EXPECT_GT(n, 6);
        break;
      }
    }
  }
  const TemporaryFolder folder;
  save(real_files(), folder / "m", "old");
  for (int64_t limit = 0; limit < 100; ++limit) {
    FaultyFiles files(real_files(), {.enospc_after_bytes = limit, .short_writes = true});
    EXPECT_THROW(save(files, folder / "m", "new"), IoError);
    EXPECT_EQ(load(folder / "m"), "old");
    EXPECT_THAT(real_files().list(folder.path()), ElementsAre("m"));
  }
}

}  // namespace
}  // namespace mstrain
