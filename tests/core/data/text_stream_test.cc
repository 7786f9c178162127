#include "core/data/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/utf8.h"
#include "tests/amount.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

std::shared_ptr<const MappedFiles> map_all(const std::string& folder, size_t max_mappings = 4096) {
  return std::make_shared<MappedFiles>(real_files(), find_source_files(real_files(), folder),
                                       max_mappings);
}

std::vector<int32_t> read(const TokenStream& stream, int64_t begin, int64_t end) {
  std::vector<int32_t> out(end - begin);
  stream.read(begin, out);
  return out;
}

// Text with `wide` percent of its characters outside ASCII.
std::string random_text(Rng& rng, size_t characters, uint64_t wide) {
  static constexpr char32_t kWide[] = {0xE9, 0x3B1, 0x20AC, 0x4E2D, 0x1F600, 0x10FFFF};
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    append_utf8(rng.below(100) < wide ? kWide[rng.below(6)] : 'a' + rng.below(26), text);
  }
  return text;
}

TEST(TextStream, CharactersAcrossFilesAreThoseOfTheWholeText) {
  Rng rng(3);
  for (const uint64_t wide : {0, 1, 50}) {
    const Scratch scratch;
    std::string whole;
    for (int file = 0; file < 6; ++file) {
      const std::string text = random_text(rng, 1 + rng.below(700), wide);
      scratch.write(fmt::format("{}.txt", file), text);
      whole += text;
    }
    for (const size_t max_mappings : {1, 2, 100}) {
      const auto text = map_all(scratch.root(), max_mappings);
      const auto index = std::make_shared<CharIndex>(text);
      const auto tokenizer = std::make_shared<CharTokenizer>(index->characters());
      EXPECT_EQ(tokenizer->to_json(), CharTokenizer::of_text(whole).to_json());
      const std::vector<int32_t> expected = tokenizer->encode(whole);
      const auto chars = char_stream(index, tokenizer);
      const auto bytes = byte_stream(text);
      ASSERT_EQ(chars->size(), static_cast<int64_t>(expected.size()));
      ASSERT_EQ(bytes->size(), static_cast<int64_t>(whole.size()));
      EXPECT_EQ(read(*chars, 0, chars->size()), expected);
      EXPECT_EQ(read(*bytes, 0, bytes->size()), ByteTokenizer().encode(whole));
      for (int round = 0; round < 200; ++round) {
        const auto begin = static_cast<int64_t>(rng.below(expected.size()));
        const int64_t end = rng.between(begin, std::min<int64_t>(chars->size(), begin + 300));
        ASSERT_EQ(read(*chars, begin, end),
                  std::vector<int32_t>(expected.begin() + begin, expected.begin() + end));
      }
      EXPECT_THROW(read(*chars, chars->size(), chars->size() + 1), Error);
      EXPECT_THROW(read(*bytes, -1, 0), Error);
    }
  }
}

TEST(TextStream, EachFileIsADocument) {
  const Scratch scratch;
  scratch.write("a.txt", "aé");
  scratch.write("b.txt", "€");
  scratch.write("c.txt", "xyz");
  const auto text = map_all(scratch.root());
  const auto index = std::make_shared<CharIndex>(text);
  const auto tokenizer = std::make_shared<CharTokenizer>(index->characters());
  EXPECT_THAT(byte_stream(text)->document_ends(), testing::ElementsAre(3, 6, 9));
  EXPECT_THAT(char_stream(index, tokenizer)->document_ends(), testing::ElementsAre(2, 3, 6));
}

TEST(TextStream, ManyThreadsReadWhatOneReads) {
  Rng rng(4);
  const Scratch scratch;
  for (int file = 0; file < 20; ++file) {
    scratch.write(fmt::format("{:02}.txt", file), random_text(rng, 300, 20));
  }
  const auto index = std::make_shared<CharIndex>(map_all(scratch.root(), /*max_mappings=*/3));
  const auto stream = char_stream(index, std::make_shared<CharTokenizer>(index->characters()));
  const std::vector<int32_t> expected = read(*stream, 0, stream->size());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Rng own(100, t);
      for (int round = 0; round < 300; ++round) {
        const auto begin = static_cast<int64_t>(own.below(expected.size() - 50));
        wrong += read(*stream, begin, begin + 50) !=
                 std::vector<int32_t>(expected.begin() + begin, expected.begin() + begin + 50);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(TextStream, BytesThatAreNoUtf8AreNamedWithFileAndOffset) {
  const Scratch scratch;
  scratch.write("a.txt", "fine");
  const std::string bad = scratch.write("b.txt", "caf\xE9 noir");
  EXPECT_THAT(message_of<IoError>([&] { CharIndex(map_all(scratch.root())); }),
              HasSubstr(bad + ": not valid UTF-8 at byte 3"));
  scratch.write("b.txt", "caf\xC3");  // cut inside a character, which the next file must not finish
  scratch.write("c.txt", "\xA9");
  EXPECT_THAT(message_of<IoError>([&] { CharIndex(map_all(scratch.root())); }),
              HasSubstr(bad + ": not valid UTF-8 at byte 3"));
}

TEST(TextStream, ACharacterWithoutAnIdIsNamedWithFileAndOffset) {
  const Scratch scratch;
  scratch.write("a.txt", "abc");
  const std::string bad = scratch.write("b.txt", "aß?b");
  const auto index = std::make_shared<CharIndex>(map_all(scratch.root()));
  const auto tokenizer = std::make_shared<CharTokenizer>(CharTokenizer::of_text("abcß"));
  EXPECT_THAT(message_of<IoError>([&] { char_stream(index, tokenizer); }),
              HasSubstr(bad + ": '?' (U+003F) at byte 3 is not among the tokenizer's 4"));
}

TEST(TextStream, AFileThatChangesItsSizeIsNoticed) {
  const Scratch scratch;
  scratch.write("a.txt", "0123456789");
  const std::string file = scratch.write("b.txt", "0123456789");
  const auto stream = byte_stream(map_all(scratch.root()));
  EXPECT_EQ(read(*stream, 0, 10).size(), 10U);
  scratch.write("b.txt", "01234567890");
  EXPECT_THAT(message_of<IoError>([&] { read(*stream, 5, 15); }),
              HasSubstr(file + ": has changed since it was opened: 10 bytes then, 11 now"));
}

TEST(TextStream, RandomBytesAreReadOrRefused) {
  Rng rng(12);
  const Scratch scratch;
  int refused = 0;
  const int64_t rounds = repetitions(300);
  for (int64_t round = 0; round < rounds; ++round) {
    std::string text = random_text(rng, 1 + rng.below(600), 10);
    for (uint64_t edits = rng.below(3); edits > 0; --edits) {
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    }
    scratch.write("t.txt", text);
    try {
      const auto index = std::make_shared<CharIndex>(map_all(scratch.root()));
      const auto tokenizer = std::make_shared<CharTokenizer>(index->characters());
      const auto stream = char_stream(index, tokenizer);
      ASSERT_EQ(tokenizer->decode(read(*stream, 0, stream->size())), text);
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 6);
  EXPECT_LT(refused, rounds - rounds / 6);
}

}  // namespace
}  // namespace mstrain
