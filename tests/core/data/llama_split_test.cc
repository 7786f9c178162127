// The patterns of Llama 3 and Qwen2, and tokenizers that cut by them.
#include "core/data/llama_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/gpt2_split.h"
#include "core/data/tokenizer.h"
#include "core/data/utf8.h"
#include "tests/core/base/message_of.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

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

Json special_token(int id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

TEST(LlamaSplit, LineEndsBehindSignsMayGoWithAnAddedToken) {
  Json json = by_pattern(kLlama3Pattern, false);
  json["added_tokens"].push_back(special_token(268, "<mask>"));
  json["added_tokens"][1]["lstrip"] = true;
  const auto tokenizer = read_tokenizer(json);
  const std::string text = "the ..." + std::string(20, '\n') + std::string(30, ' ') + "<mask> the";
  const std::vector<int32_t> whole = tokenizer->encode(text);
  for (size_t cut = 1; cut < text.size(); ++cut) {
    std::vector<int32_t> ids;
    EncodeState state;
    const size_t taken = tokenizer->encode_some(text.substr(0, cut), false, state, ids);
    tokenizer->encode_some(text.substr(taken), true, state, ids);
    EXPECT_EQ(ids, whole) << cut;
  }
}

// As transformers reads these files: <|im_start|> has an id behind the vocabulary's.
TEST(LlamaSplit, VocabularyAndMergesOfQwen2AreCutByItsPattern) {
  Json json = by_pattern(kQwen2Pattern, true);
  Json decoder = Json::object();
  json["added_tokens"].push_back(special_token(268, "<|im_start|>"));
  for (Json token : json["added_tokens"]) {
    const std::string id = token["id"].dump();
    token.erase("id");
    decoder[id] = token;
  }
  const std::string vocab = json["model"]["vocab"].dump();
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : json["model"]["merges"]) {
    merges += merge.get<std::string>() + "\n";
  }
  const auto from = [&](const Json& config) {
    return tokenizer_from_pair({"vocab.json", vocab}, {"merges.txt", merges}, {},
                               {"tokenizer_config.json", config.dump()});
  };
  const auto tokenizer =
      from({{"tokenizer_class", "Qwen2TokenizerFast"}, {"added_tokens_decoder", decoder}});
  const auto expected = read_tokenizer(json);
  EXPECT_EQ(tokenizer->vocab_size(), 269);
  Rng rng(6);
  for (int round = 0; round < 100; ++round) {
    const std::string text = random_text(rng, 20) + "<|im_start|>" + random_text(rng, 20);
    ASSERT_EQ(tokenizer->encode(text), expected->encode(text)) << testing::PrintToString(text);
  }
  const auto refusal = [&](const Json& config) {
    return message_of<IoError>([&] { from(config); });
  };
  EXPECT_THAT(refusal({{"tokenizer_class", "RobertaTokenizer"}}),
              StartsWith("tokenizer_config.json.tokenizer_class: \"RobertaTokenizer\" is not"));
  EXPECT_THAT(refusal({{"added_tokens_decoder", {{"2x", decoder["268"]}}}}),
              StartsWith("tokenizer_config.json.added_tokens_decoder: expected ids below 2^31"));
  decoder["268"]["single_word"] = true;
  EXPECT_THAT(
      refusal({{"added_tokens_decoder", decoder}}),
      StartsWith("tokenizer_config.json.added_tokens_decoder[\"268\"].single_word: true is not"));
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
