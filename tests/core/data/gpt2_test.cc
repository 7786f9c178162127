// GPT-2's pattern, the classes of characters that it asks for, and its own tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/base/error.h"
#include "core/data/gpt2_split.h"
#include "core/data/tokenizer.h"
#include "core/data/utf8.h"
#include "tests/amount.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using testing::ElementsAre;

using Ids = std::vector<int32_t>;

std::vector<std::string> pieces_of(std::string_view text) {
  const Gpt2Split split;
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = split.piece_at(text, at).end;
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

TEST(Gpt2Split, CutsAsThePatternDoes) {
  EXPECT_THAT(pieces_of("Hello, I'm here!!"), ElementsAre("Hello", ",", " I", "'m", " here", "!!"));
  EXPECT_THAT(pieces_of("  two  spaces\n\n\tand tabs "),
              ElementsAre(" ", " two", " ", " spaces", "\n\n", "\t", "and", " tabs", " "));
  EXPECT_THAT(pieces_of("we'll'LL're'r 've"),
              ElementsAre("we", "'ll", "'", "LL", "'re", "'", "r", " '", "ve"));
  EXPECT_THAT(pieces_of("a1½٣ 4x"), ElementsAre("a", "1½٣", " 4", "x"));
  EXPECT_THAT(pieces_of("мир 世界🙂é"), ElementsAre("мир", " 世界", "🙂", "é"));
  EXPECT_THAT(pieces_of("e\u0301x"), ElementsAre("e", "\u0301", "x"));
  EXPECT_THAT(pieces_of("a\u00a0\u3000b"), ElementsAre("a", "\u00a0", "\u3000", "b"));
  EXPECT_THAT(pieces_of(" "), ElementsAre(" "));
  EXPECT_THAT(pieces_of("   "), ElementsAre("   "));
  EXPECT_THAT(pieces_of("a\x1c z"), ElementsAre("a", "\x1c", " z"));  // no white space
  EXPECT_THAT(pieces_of("a\xff\xe2\x82z"), ElementsAre("a", "\xff\xe2\x82", "z"));
}

TEST(UnicodeClass, KnowsCategoriesOfUnicode15) {
  EXPECT_EQ(char_class(U'a'), CharClass::kLetter);
  EXPECT_EQ(char_class(U'ª'), CharClass::kLetter);
  EXPECT_EQ(char_class(0x31350), CharClass::kLetter);  // CJK extension H, new in 15.0
  EXPECT_EQ(char_class(0x1E4F0), CharClass::kNumber);  // Nag Mundari digit, new in 15.0
  EXPECT_EQ(char_class(0x10FFFF), CharClass::kOther);
  EXPECT_EQ(char_class(0xAC01), CharClass::kLetter);
  // All of them, as Python 3.12's unicodedata (15.0.0) has them.
  if (unicode_version() != "15.0.0") {
    GTEST_SKIP() << "utf8proc knows Unicode " << unicode_version() << ", the numbers are of 15.0.0";
  }
  std::string classes;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    classes.push_back(static_cast<char>(char_class(code)));
  }
  const auto count = [&](CharClass kind) {
    return std::count(classes.begin(), classes.end(), static_cast<char>(kind));
  };
  EXPECT_EQ(count(CharClass::kSpace), 25);
  EXPECT_EQ(count(CharClass::kLetter), 136104);
  EXPECT_EQ(count(CharClass::kNumber), 1831);
  EXPECT_EQ(crc32_of_bytes(classes), 0xA5DA6088U);
}

// GPT-2's own tokenizer.
class Gpt2 : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = real_data("gpt2");
    if (folder_.empty()) {
      GTEST_SKIP() << "GPT-2's files are not in MSTRAIN_TEST_DATA";
    }
    tokenizer_ = load_tokenizer(real_files(), folder_);
  }
  std::string folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Gpt2, GivesTheKnownIds) {
  EXPECT_EQ(tokenizer_->vocab_size(), 50257);
  EXPECT_THAT(tokenizer_->encode("Hello world"), ElementsAre(15496, 995));
  EXPECT_THAT(tokenizer_->encode("Hello, I'm a language model,"),
              ElementsAre(15496, 11, 314, 1101, 257, 3303, 2746, 11));
  EXPECT_THAT(tokenizer_->encode("  two  spaces\n\n\tand tabs "),
              ElementsAre(220, 734, 220, 9029, 628, 197, 392, 22524, 220));
  EXPECT_THAT(tokenizer_->encode("1234567890"), ElementsAre(10163, 2231, 30924, 3829));
  EXPECT_THAT(tokenizer_->encode("<|endoftext|>"), ElementsAre(50256));
}

TEST_F(Gpt2, GivesTheKnownIdsOfAWholeText) {
  const std::string path = real_data("tinyshakespeare.txt");
  if (path.empty()) {
    GTEST_SKIP() << "tinyshakespeare.txt is not in MSTRAIN_TEST_DATA";
  }
  const std::string text = real_files().read(path);
  const Ids ids = tokenizer_->encode(text);
  EXPECT_EQ(ids.size(), 338025);
  EXPECT_EQ(crc32_of_u16(ids), 0x44F1519Au);
  EXPECT_EQ(tokenizer_->decode(ids), text);
}

// As tiktoken's decode_bytes() gives them.
TEST_F(Gpt2, EveryIdHasItsBytesWhateverStandsBeforeIt) {
  Ids ids(50257);
  std::iota(ids.begin(), ids.end(), 0);
  const std::string bytes = tokenizer_->decode(ids);
  EXPECT_EQ(bytes.size(), 320827U);
  EXPECT_EQ(crc32_of_bytes(bytes), 0xA65AB9F2U);
  EXPECT_EQ(crc32_of_bytes(tokenizer_->decode(Ids(ids.rbegin(), ids.rend()))), 0xFB6623ECU);
  EXPECT_THROW(tokenizer_->decode(Ids{50257}), Error);
}

TEST_F(Gpt2, EveryCharacterRoundTripsWhateverStandsBesideIt) {
  std::string text;
  // Beyond the second plane few have a class of their own.
  const char32_t last = kSanitized ? 0x1FFFF : 0x10FFFF;
  for (char32_t code = 0; code <= last; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) {
      continue;
    }
    for (const char* beside : {"a", " ", "\n"}) {
      text += beside;
      append_utf8(code, text);
    }
    if (code % 4096 == 4095) {
      ASSERT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text)
          << "up to " << static_cast<uint32_t>(code);
      text.clear();
    }
  }
}

TEST_F(Gpt2, ItsFilesMakeItAgain) {
  const Scratch scratch;
  for (const TokenizerFile& file : tokenizer_->files()) {
    scratch.write(file.name, file.bytes);
  }
  const auto again = load_tokenizer(real_files(), scratch.root());
  EXPECT_EQ(again->vocab_size(), tokenizer_->vocab_size());
  EXPECT_EQ(again->encode("Hello мир"), tokenizer_->encode("Hello мир"));
  EXPECT_TRUE(has_tokenizer(real_files(), scratch.root()));
}

}  // namespace
}  // namespace mstrain
