// The patterns of Llama 3 and Qwen2, and tokenizers that cut by them.
#include "core/data/llama_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/data/gpt2_split.h"
#include "core/data/tokenizer.h"
#include "core/data/utf8.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;

std::vector<std::string> llama_pieces(std::string_view text, int digits = 3) {
  const LlamaSplit split(digits);
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const SplitPiece piece = split.piece_at(text, at);
    EXPECT_GE(piece.seen, piece.end);
    out.emplace_back(text.substr(at, piece.end - at));
    at = piece.end;
  }
  return out;
}

TEST(LlamaSplit, CutsAsThePatternDoes) {
  EXPECT_THAT(llama_pieces("Hello, I'm HERE!!"),
              ElementsAre("Hello", ",", " I", "'m", " HERE", "!!"));
  EXPECT_THAT(llama_pieces("we'LL'Re'x 's"), ElementsAre("we", "'LL", "'Re", "'x", " '", "s"));
  EXPECT_THAT(llama_pieces("it'\u017F"), ElementsAre("it", "'\u017F"));
  EXPECT_THAT(llama_pieces("(word)\tword"), ElementsAre("(word", ")", "\tword"));
  EXPECT_THAT(llama_pieces("!!word"), ElementsAre("!!", "word"));
  EXPECT_THAT(llama_pieces("1234567 89"), ElementsAre("123", "456", "7", " ", "89"));
  EXPECT_THAT(llama_pieces("1234", 1), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(llama_pieces("a;\r\n\nb"), ElementsAre("a", ";\r\n\n", "b"));
  EXPECT_THAT(llama_pieces("a  \n  \n  b"), ElementsAre("a", "  \n  \n", " ", " b"));
  EXPECT_THAT(llama_pieces("a  \n"), ElementsAre("a", "  \n"));
  EXPECT_THAT(llama_pieces("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(llama_pieces("a   1"), ElementsAre("a", "  ", " ", "1"));
  EXPECT_THAT(llama_pieces("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(llama_pieces(" (x"), ElementsAre(" (", "x"));
  EXPECT_THAT(llama_pieces("e\u0301x"), ElementsAre("e", "\u0301x"));
  EXPECT_THAT(llama_pieces("a\xff\xe2\x82z"), ElementsAre("a", "\xff\xe2\x82", "z"));
}

// A tokenizer.json as those of Llama 3 (n: 3) and Qwen2 (n: 1, with composed text) cut.
Json by_pattern(std::string_view regex, bool nfc) {
  Json json = words();
  json["pre_tokenizer"] =
      Json{{"type", "Sequence"},
           {"pretokenizers",
            {Json{{"type", "Split"},
                  {"pattern", {{"Regex", regex}}},
                  {"behavior", "Isolated"},
                  {"invert", false}},
             Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  if (nfc) {
    json["normalizer"] = {{"type", "NFC"}};
  }
  return json;
}

TEST(LlamaSplit, PartsOfATextGiveTheIdsOfTheWhole) {
  for (const Json& json : {by_pattern(kLlama3Pattern, false), by_pattern(kQwen2Pattern, true),
                           by_pattern(kGpt2Pattern, true)}) {
    const auto tokenizer = read_tokenizer(json);
    Rng rng(5);
    for (int round = 0; round < 400; ++round) {
      std::string text = random_text(rng, rng.below(60));
      for (uint64_t spaces = rng.below(80) * rng.below(2); spaces > 0; --spaces) {
        text += " ";  // a line end behind them joins them with those in front
      }
      text += random_text(rng, rng.below(60));
      ASSERT_EQ(encode_in_parts(*tokenizer, text, rng), tokenizer->encode(text))
          << "round " << round << ": " << testing::PrintToString(text);
    }
  }
}

TEST(LlamaSplit, TextIsComposedWhereTheFileSaysSo) {
  const auto composed = read_tokenizer(by_pattern(kQwen2Pattern, true));
  const auto as_it_is = read_tokenizer(by_pattern(kQwen2Pattern, false));
  EXPECT_EQ(composed->encode("caf\u0065\u0301"), composed->encode("caf\u00e9"));
  EXPECT_NE(as_it_is->encode("caf\u0065\u0301"), as_it_is->encode("caf\u00e9"));
  EXPECT_EQ(composed->decode(composed->encode("\u1100\u1161\xff\u0041\u030a")), "\uac00\xff\u00c5");
}

TEST(LlamaSplit, ComposesNothingElse) {
  EXPECT_EQ(to_nfc("plain"), "plain");
  EXPECT_EQ(to_nfc(""), "");
  EXPECT_EQ(to_nfc("\xe2\x82"), "\xe2\x82");
  EXPECT_EQ(to_nfc("\u212b"), "\u00c5");  // ångström
  EXPECT_EQ(to_nfc("\ufb01"), "\ufb01");  // a ligature stays
}

}  // namespace
}  // namespace mstrain
