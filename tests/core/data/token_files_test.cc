#include "core/data/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/documents.h"
#include "core/data/token_format.h"
#include "core/data/token_writer.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<int32_t>;

SourceFile source_of(const std::string& path) {
  return {path, file_name(path), static_cast<int64_t>(real_files().file_size(path))};
}
TokenStreamPtr open(const std::string& path, int64_t vocab_size = 1 << 20) {
  return open_token_file(real_files(), source_of(path), vocab_size);
}
Ids all_of(const TokenStream& stream) {
  Ids ids(stream.size());
  stream.read(0, ids);
  return ids;
}

void write(const std::string& path, TokenFormat format, int64_t vocab_size,
           const std::vector<Ids>& documents) {
  TokenWriter writer(real_files(), path, format, vocab_size);
  for (const Ids& document : documents) {
    writer.add(document);
    writer.end_document();
  }
  writer.finish();
}

const std::vector<Ids> kDocuments{{1, 2, 3}, {}, {65535, 7}, {4}};
const Ids kTogether{1, 2, 3, 65535, 7, 4};

TEST(TokenFiles, WhatIsWrittenIsReadBack) {
  const Scratch scratch;
  const std::string path = scratch.path("x.bin");
  for (const int64_t vocab : {65536, 100000}) {
    for (const TokenFormat format :
         {TokenFormat::kNanogpt, TokenFormat::kLlmc, TokenFormat::kMegatron}) {
      if (format == TokenFormat::kNanogpt && vocab > 65536) {
        EXPECT_THROW(write(path, format, vocab, {}), ConfigError);
        continue;
      }
      std::filesystem::remove(scratch.path("x.idx"));
      write(path, format, vocab, kDocuments);
      const TokenFileInfo info = read_token_file_info(real_files(), path);
      EXPECT_EQ(info.kind, kTokenFormatNames[static_cast<size_t>(format)]);
      EXPECT_EQ(info.tokens, 6);
      EXPECT_EQ(all_of(*open(path)), kTogether);
      Ids part(2);
      open(path)->read(3, part);
      EXPECT_THAT(part, ElementsAre(65535, 7));
      EXPECT_THROW(open(path)->read(5, part), Error);
      if (format == TokenFormat::kMegatron) {
        EXPECT_THAT(open(path)->document_ends(), ElementsAre(3, 3, 5, 6));
        EXPECT_EQ(info.documents, 4);
      } else {
        EXPECT_THAT(open(path)->document_ends(), ElementsAre(6));
      }
      EXPECT_THAT(message_of<IoError>([&] { all_of(*open(path, 65535)); }),
                  HasSubstr("id 65535 is not below the tokenizer's vocabulary of 65535"));
    }
  }
}

TEST(TokenFiles, BytesAreThoseOfTheirFormats) {
  const Scratch scratch;
  const auto bytes = [&](TokenFormat format, int64_t vocab, const char* name) {
    write(scratch.path("y.bin"), format, vocab, {{258}, {3, 4}});
    return real_files().read(scratch.path(name));
  };
  EXPECT_EQ(bytes(TokenFormat::kNanogpt, 1000, "y.bin"), std::string("\x02\x01\x03\0\x04\0", 6));
  const std::string llmc = bytes(TokenFormat::kLlmc, 1000, "y.bin");
  EXPECT_EQ(llmc.size(), 1024 + 6);
  EXPECT_EQ(llmc.substr(0, 12), std::string("\x88\xD8\x34\x01\x01\0\0\0\x03\0\0\0", 12));
  EXPECT_EQ(llmc.substr(1024), std::string("\x02\x01\x03\0\x04\0", 6));
  const std::string wide = bytes(TokenFormat::kLlmc, 100000, "y.bin");
  EXPECT_EQ(read_little_endian<uint32_t>(wide.data()), 20240801u);
  EXPECT_EQ(read_little_endian<uint32_t>(wide.data() + 4), 7u);
  EXPECT_EQ(wide.size(), 1024 + 12);
  const std::string index = bytes(TokenFormat::kMegatron, 1000, "y.idx");
  std::string expected("MMIDIDX\0\0\x01\0\0\0\0\0\0\0\x08", 18);
  for (const int64_t count : {2, 3}) {
    append_little_endian(expected, count);
  }
  for (const int32_t length : {1, 2}) {
    append_little_endian(expected, length);
  }
  for (const int64_t value : {0, 2, 0, 1, 2}) {  // offsets, then documents
    append_little_endian(expected, value);
  }
  EXPECT_EQ(index, expected);
  EXPECT_THAT(message_of<ConfigError>([&] { bytes(TokenFormat::kLlmc, 1000, "y.bin"); }),
              HasSubstr("y.idx lies beside it"));
  EXPECT_THAT(message_of<ConfigError>([&] { bytes(TokenFormat::kJsonl, 1000, "y.bin"); }),
              HasSubstr("y.bin: training takes what ends in .bin for ids in bytes"));
  write(scratch.path("y.jsonl"), TokenFormat::kJsonl, 1000, {{258}, {3, 4}});
  EXPECT_EQ(real_files().read(scratch.path("y.jsonl")), "[258]\n[3, 4]\n");
  EXPECT_FALSE(real_files().exists(scratch.path(".y.bin.lengths")));
  EXPECT_FALSE(real_files().exists(scratch.path(".y.bin.partial")));
}

TEST(TokenFiles, WhatCannotBeIsRefusedWithTheOffset) {
  const Scratch scratch;
  const auto refusal = [&](const std::string& bin, const std::string& idx = "") {
    const std::string path = scratch.write("z.bin", bin);
    std::filesystem::remove(scratch.path("z.idx"));
    if (!idx.empty()) {
      scratch.write("z.idx", idx);
    }
    return message_of<IoError>([&] { open(path); });
  };
  EXPECT_THAT(refusal("abc"), HasSubstr("z.bin: offset 2: ids of 16 bits"));
  std::string llmc(1024, '\0');
  llmc.replace(0, 4, "\x88\xD8\x34\x01");
  EXPECT_THAT(refusal(llmc), HasSubstr("offset 4: version 0 instead of 1"));
  llmc[4] = 1;
  llmc[8] = 5;
  EXPECT_THAT(refusal(llmc + "ab"), HasSubstr("offset 8: the header tells of 5 ids of 2 bytes"));
  llmc[11] = '\x80';
  EXPECT_THAT(refusal(llmc), HasSubstr("offset 8"));
  EXPECT_THAT(refusal(llmc.substr(0, 500)), HasSubstr("offset 500: cut short"));
  EXPECT_THAT(refusal("MMIDIDX\0"), HasSubstr("is a Megatron index"));

  write(scratch.path("m.bin"), TokenFormat::kMegatron, 1000, {{1, 2}, {3}});
  const std::string bin = real_files().read(scratch.path("m.bin"));
  const std::string idx = real_files().read(scratch.path("m.idx"));
  const auto with = [&](size_t at, char byte) {
    std::string bad = idx;
    bad[at] = byte;
    return bad;
  };
  EXPECT_THAT(refusal(bin, idx.substr(0, 20)), HasSubstr("z.idx: offset 0: expected the 34 bytes"));
  EXPECT_THAT(refusal(bin, with(0, 'X')), HasSubstr("beginning with MMIDIDX"));
  EXPECT_THAT(refusal(bin, with(9, 2)), HasSubstr("offset 9: version 2"));
  EXPECT_THAT(refusal(bin, with(17, 7)), HasSubstr("offset 17: type 7"));
  EXPECT_THAT(refusal(bin, with(25, '\xff')), HasSubstr("offset 18"));
  EXPECT_THAT(refusal(bin, idx + "x"), HasSubstr("offset 18"));
  EXPECT_THAT(refusal(bin, with(34, 9)), HasSubstr("offset 34: sequence 0 has 9 ids"));
  EXPECT_THAT(refusal(bin, with(37, '\x80')), HasSubstr("offset 34"));
  EXPECT_THAT(refusal(bin, with(50, 3)), HasSubstr("sequence 1 begins at byte 3, not at 4"));
  EXPECT_THAT(refusal(bin, with(66, 9)), HasSubstr("document 1 begins with sequence 9"));
  EXPECT_THAT(refusal(bin + "ab", idx), HasSubstr("hold 6 bytes, the file of ids 8"));
}

TEST(TokenFiles, DamagedFilesAreRefusedOrStillIds) {
  const Scratch scratch;
  Rng rng(41);
  int refused = 0;
  for (const TokenFormat format : {TokenFormat::kLlmc, TokenFormat::kMegatron}) {
    write(scratch.path("g.bin"), format, 100000, kDocuments);
    const std::string bin = real_files().read(scratch.path("g.bin"));
    const bool pair = format == TokenFormat::kMegatron;
    const std::string idx = pair ? real_files().read(scratch.path("g.idx")) : "";
    for (int round = 0; round < 600; ++round) {
      scratch.write("g.bin", pair && round % 2 == 0 ? bin : damaged(rng, bin));
      if (pair) {
        scratch.write("g.idx", round % 2 == 0 ? damaged(rng, idx) : idx);
      }
      try {
        const TokenStreamPtr stream = open(scratch.path("g.bin"), 100000);
        ASSERT_EQ(stream->document_ends().back(), stream->size());
        all_of(*stream);
      } catch (const IoError& error) {
        ++refused;
        ASSERT_THAT(error.what(), testing::AllOf(HasSubstr("g."), HasSubstr(": offset ")));
      }
    }
  }
  EXPECT_GT(refused, 600);
}

TEST(JsonLines, GivesEachTextAndNamesWhatIsNone) {
  const Scratch scratch;
  const std::string good = scratch.write(
      "a.jsonl", "{\"text\": \"a\\u00e9\", \"id\": 3}\r\n\n  \n{\"text\": \"\"}\n{\"text\":\"z\"}");
  JsonLines lines(good);
  std::vector<std::string> texts;
  for (std::string text; lines.next(text);) {
    texts.push_back(text);
  }
  EXPECT_THAT(texts, ElementsAre("aé", "", "z"));
  EXPECT_EQ(lines.line(), 5);
  const auto refusal = [&](const std::string& contents) {
    JsonLines bad(scratch.write("b.jsonl", contents));
    return message_of<IoError>([&] {
      for (std::string text; bad.next(text);) {
      }
    });
  };
  EXPECT_THAT(refusal("{\"text\":\"a\"}\n{\"txt\":1}"),
              HasSubstr("b.jsonl:2: from byte 13: expected a JSON object with `text`"));
  EXPECT_THAT(refusal("{\"text\":1}"), HasSubstr("`text` is no string"));
  EXPECT_THAT(refusal("[\"text\"]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(refusal("{\"text\":\"a"), HasSubstr("b.jsonl:1"));
  EXPECT_THAT(refusal("{\"text\":\"a\xff\"}"), HasSubstr("b.jsonl:1"));
  EXPECT_THAT(refusal("{\"text\":\"a\",\"text\":\"b\"}"), HasSubstr("duplicate key"));
}

}  // namespace
}  // namespace mstrain
