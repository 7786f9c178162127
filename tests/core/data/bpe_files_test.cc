// What files of byte-level BPEs may not say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/gpt2_split.h"
#include "core/data/tokenizer_files.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

using Ids = std::vector<int32_t>;

TEST(BpeFiles, WhatIsNotSupportedIsRefusedByName) {
  const auto refusal = [](const char* pointer, const char* value) {
    Json json = words();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return message_of<IoError>([&] { read_tokenizer(json); });
  };
  EXPECT_THAT(refusal("/version", R"("2.0")"), HasSubstr("t.json.version: \"2.0\" is unknown"));
  EXPECT_THAT(refusal("/truncation", "5"), HasSubstr("truncation: expected an object"));
  EXPECT_THAT(refusal("/padding", R"("longest")"), HasSubstr("padding: expected an object"));
  EXPECT_THAT(refusal("/normaliser", "null"), HasSubstr("did you mean normalizer?"));
  EXPECT_THAT(refusal("/normalizer", R"({"type":"NFD"})"), HasSubstr("\"NFD\" is not supported"));
  EXPECT_THAT(refusal("/pre_tokenizer", "null"), HasSubstr("pre_tokenizer: null is not"));
  EXPECT_THAT(refusal("/pre_tokenizer/type", R"("Digits")"), HasSubstr("\"Digits\" is not"));
  EXPECT_THAT(refusal("/pre_tokenizer/x", "1"), HasSubstr("pre_tokenizer.x: unknown field"));
  EXPECT_THAT(refusal("/pre_tokenizer", R"({"type":"Sequence","pretokenizers":[{"type":"Split",
                      "pattern":{"Regex":"\\p{L}+"},"behavior":"Isolated"},{"type":"ByteLevel"}]})"),
              HasSubstr("\\p{L}+\" is not supported; GPT-2's pattern"));
  EXPECT_THAT(refusal("/decoder/type", R"("WordPiece")"), HasSubstr("\"WordPiece\" is not"));
  EXPECT_THAT(refusal("/post_processor/type", R"("BertProcessing")"), HasSubstr("BertProcessing"));
  EXPECT_THAT(refusal("/model/type", R"("WordPiece")"), HasSubstr("\"WordPiece\" is not"));
  EXPECT_THAT(refusal("/model/dropout", "0.1"), HasSubstr("model.dropout: is not"));
  EXPECT_THAT(refusal("/model/byte_fallback", "true"), HasSubstr("model.byte_fallback"));
  EXPECT_THAT(refusal("/model/end_of_word_suffix", R"("</w>")"), HasSubstr("\"</w>\""));
  EXPECT_THAT(refusal("/model/extra", "1"), HasSubstr("model.extra: unknown field"));
  EXPECT_THAT(refusal("/added_tokens/0/single_word", "true"),
              HasSubstr("single_word: true is not"));
  EXPECT_THAT(refusal("/post_processor", R"({"type": "TemplateProcessing",
                      "single": [{"SpecialToken": {"id": "B"}}, {"Sequence": {"id": "A"}}],
                      "special_tokens": {"B": {"id": "B", "ids": [268], "tokens": ["B"]}}})"),
              HasSubstr("t.json.post_processor: id 268 is not below the vocabulary's size 268"));
}

// Programs that pad and cut batches leave how in their files; texts have the same ids.
TEST(BpeFiles, HowBatchesArePaddedChangesNothing) {
  const std::string text = "the the other there";
  const Ids plain = read_tokenizer(words())->encode(text);
  Json json = words();
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 64}}},
                     {"direction", "Right"},
                     {"pad_id", 0},
                     {"pad_type_id", 0},
                     {"pad_token", "!"},
                     {"pad_to_multiple_of", nullptr}};
  EXPECT_EQ(read_tokenizer(json)->encode(text), plain);
}

TEST(BpeFiles, ContradictionsAreRefused) {
  const auto refusal = [](const char* pointer, const char* value) {
    Json json = words();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return message_of<IoError>([&] { read_tokenizer(json); });
  };
  EXPECT_THAT(refusal("/model/vocab/the", "5"), HasSubstr("id 5 belongs to both"));
  EXPECT_THAT(refusal("/model/vocab/the", "2147483648"), HasSubstr("an id below 2^31"));
  EXPECT_THAT(refusal("/model/vocab/the", "-1"), HasSubstr("an id below 2^31"));
  EXPECT_THAT(refusal("/model/vocab/the", "1.5"), HasSubstr("an id below 2^31"));
  EXPECT_THAT(refusal("/model/vocab/the", "2000000000"), HasSubstr("far outside a vocabulary"));
  EXPECT_THAT(refusal("/model/vocab", "[]"), HasSubstr("model.vocab: expected an object"));
  EXPECT_THAT(refusal("/model/merges/0", R"("x y")"), HasSubstr("merges[0] names \"xy\""));
  EXPECT_THAT(refusal("/model/merges/1", R"("qq y")"), HasSubstr("merges[1] names \"qq\""));
  EXPECT_THAT(refusal("/model/merges/1", R"("a b c")"), HasSubstr("merges[1]: expected two"));
  EXPECT_THAT(refusal("/model/merges/1", "[1, 2]"), HasSubstr("merges[1]: expected two"));
  EXPECT_THAT(refusal("/model/unk_token", R"("no")"), HasSubstr("unk_token \"no\""));
  EXPECT_THAT(refusal("/added_tokens/0/id", "3"), HasSubstr("id 3 belongs to both"));
  EXPECT_THAT(refusal("/added_tokens/0/content", R"("the")"), HasSubstr("has id 267, but 257"));
  EXPECT_THAT(refusal("/added_tokens/0/content", R"("")"), HasSubstr("is empty"));
  EXPECT_THAT(refusal("/added_tokens/0/content", R"(7)"), HasSubstr("expected a string"));
}

TEST(BpeFiles, DamagedFilesAreRefusedOrStillATokenizer) {
  Rng rng(29);
  const Json whole = words();
  const std::string json = whole.dump();
  const std::string vocab = whole["model"]["vocab"].dump();
  std::string merges = "#version: 0.2\n";
  for (const std::string merge : whole["model"]["merges"]) {
    merges += merge + "\n";
  }
  int refused = 0;
  const auto attempt = [&](auto load) {
    try {
      const std::shared_ptr<const Tokenizer> tokenizer = load();
      tokenizer->encode("the cat мир");
      tokenizer->decode(Ids{0, 1});
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("t."), HasSubstr("no token for")));
    }
  };
  for (int round = 0; round < 1500; ++round) {
    attempt([&] { return tokenizer_from_hf({"t.json", damaged(rng, json)}); });
    attempt([&] {
      return tokenizer_from_pair({"t.vocab", damaged(rng, vocab)}, {"t.merges", merges});
    });
    attempt([&] {
      return tokenizer_from_pair({"t.vocab", vocab}, {"t.merges", damaged(rng, merges)});
    });
  }
  EXPECT_GT(refused, 2000);
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(message_of<IoError>([&] {
                tokenizer_from_hf({"t.json", deep});
              }),
              HasSubstr("nested deeper"));
  EXPECT_THROW(tokenizer_from_pair({"t.vocab", "{\"a\":0,\"a\":1}"}, {"t.merges", ""}), IoError);
  EXPECT_THAT(message_of<IoError>([&] {
                tokenizer_from_pair({"t.vocab", "{\"a\":0}"}, {"t.merges", "a\n"});
              }),
              HasSubstr("t.merges:1: offset 0: expected two tokens"));
  EXPECT_THAT(message_of<IoError>([&] {
                tokenizer_from_pair({"t.vocab", "{\"a\":0}"}, {"t.merges", "a a\n"});
              }),
              HasSubstr("t.merges: merges[0] names \"aa\""));
  EXPECT_THROW(tokenizer_from_hf({"t.json", R"({"model":{"vocab":{"\ud800":0}}})"}), IoError);
}

}  // namespace
}  // namespace mstrain
