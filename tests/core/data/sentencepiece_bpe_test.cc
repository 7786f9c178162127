// Byte-pair encoding over characters, from tokenizer.json and from SentencePiece's .model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/unigram_normaliser.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"
#include "tests/core/data/small_unigram.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr int32_t kBytes = 3;  // the id of <0x00>

// As Llama 2's, with 14 pieces behind <unk>, <s>, </s> and the bytes.
Json small_llama() {
  Json vocab{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    vocab[fmt::format("<0x{:02X}>", byte)] = kBytes + byte;
  }
  for (const char* piece :
       {"▁", "▁▁", "t", "h", "e", "th", "the", "▁the", "a", "b", "ab", "▁a", "ba", "мир"}) {
    const auto id = vocab.size();
    vocab[piece] = id;
  }
  const Json merges = Json::parse(R"(["t h", "th e", "▁ the", "▁ ▁", ["a", "b"], "▁ a", "b a"])");
  const auto special = [](int id, const char* content) {
    return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  return {{"version", "1.0"},
          {"added_tokens", {special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")}},
          {"normalizer", Json::parse(R"({"type": "Sequence", "normalizers": [
              {"type": "Prepend", "prepend": "▁"},
              {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})")},
          {"pre_tokenizer", nullptr},
          {"post_processor", Json::parse(R"({"type": "TemplateProcessing",
              "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                         {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
              "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})")},
          {"decoder", Json::parse(R"({"type": "Sequence", "decoders": [
              {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
              {"type": "ByteFallback"}, {"type": "Fuse"},
              {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})")},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

TEST(SentencePieceBpe, GrowsPiecesByMergesAndSpellsTheRestInBytes) {
  const auto tokenizer = read_tokenizer(small_llama());
  const Json vocab = small_llama()["model"]["vocab"];
  const auto id = [&](const char* piece) { return vocab[piece].get<int32_t>(); };
  EXPECT_EQ(tokenizer->name(), "bpe");
  EXPECT_THAT(tokenizer->encode("the"), ElementsAre(id("▁the")));
  EXPECT_THAT(tokenizer->encode(" the"), ElementsAre(id("▁"), id("▁the")));
  EXPECT_THAT(tokenizer->encode("aba"), ElementsAre(id("▁"), id("ab"), id("a")));
  EXPECT_THAT(tokenizer->encode("a   a"), ElementsAre(id("▁a"), id("▁▁"), id("▁a")));
  EXPECT_THAT(tokenizer->encode("\n"), ElementsAre(id("▁"), kBytes + 10));
  EXPECT_THAT(tokenizer->encode("é"), ElementsAre(id("▁"), kBytes + 0xC3, kBytes + 0xA9));
  EXPECT_THAT(tokenizer->encode("a</s>a"), ElementsAre(id("▁a"), 2, id("▁a")));
  EXPECT_THAT(tokenizer->encode(""), ElementsAre());
  EXPECT_THAT(tokenizer->special().before, ElementsAre(1));
  EXPECT_THAT(tokenizer->encode_beginning("the"), ElementsAre(1, id("▁the")));
  EXPECT_THAT(tokenizer->encode_beginning(""), ElementsAre(1));
  EXPECT_EQ(tokenizer->end_of_text(), 2);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" the é\n  ab")), " the é\n  ab");
}

TEST(SentencePieceBpe, MetaspacePutsASignBeforeTheTextAlone) {
  Json json = small_llama();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  const auto tokenizer = read_tokenizer(json);
  const Json& vocab = json["model"]["vocab"];
  EXPECT_THAT(tokenizer->encode("a</s>a"),
              ElementsAre(vocab["▁a"].get<int32_t>(), 2, vocab["a"].get<int32_t>()));
  EXPECT_THAT(tokenizer->encode(" a"), ElementsAre(vocab["▁a"].get<int32_t>()));
}

TEST(SentencePieceBpe, PartsOfATextGiveTheIdsOfTheWhole) {
  const auto tokenizer = read_tokenizer(small_llama());
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(rng, rng.below(60));
    ASSERT_EQ(encode_in_parts(*tokenizer, text, rng), tokenizer->encode(text))
        << "round " << round << ": " << testing::PrintToString(text);
  }
}

TEST(SentencePieceBpe, ASpaceBehindTheSignItselfBeginsNoWord) {
  Json json = small_llama();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", false}};
  const auto tokenizer = read_tokenizer(json);
  const std::string text = "q▁" + std::string(130, ' ') + "the";
  const Ids whole = tokenizer->encode(text);
  for (size_t cut = 1; cut < text.size(); ++cut) {
    Ids ids;
    EncodeState state;
    const size_t taken = tokenizer->encode_some(text.substr(0, cut), false, state, ids);
    tokenizer->encode_some(text.substr(taken), true, state, ids);
    EXPECT_EQ(ids, whole) << cut;
  }
}

TEST(SentencePieceBpe, MergesOfAModelFollowItsScores) {
  // "abc": b c goes first, whose piece has the higher score; of the equal pairs of "aaa" the left one.
  const std::vector<TestPiece> pieces{{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"▁", -9},
                                      {"a", -9},       {"b", -9},     {"c", -9},      {"ab", -2},
                                      {"bc", -1},      {"aa", -3},    {"aaa", -4},    {"▁a", -5}};
  const auto tokenizer = make_unigram(model_bytes(pieces, false, true, 2));
  EXPECT_EQ(tokenizer->name(), "bpe");
  EXPECT_THAT(tokenizer->encode("abc"), ElementsAre(11, 8));
  EXPECT_THAT(tokenizer->encode("baaaa"), ElementsAre(3, 5, 9, 9));
  EXPECT_THAT(tokenizer->encode("aaa"), ElementsAre(3, 10));
  EXPECT_THAT(tokenizer->encode("a  é"), ElementsAre(11, 3, 3, 0));
  EXPECT_THAT(tokenizer->special().before, ElementsAre(1));
  EXPECT_EQ(tokenizer->end_of_text(), 2);
}

TEST(SentencePieceBpe, WhatIsNotSupportedIsRefusedByName) {
  const auto refusal = [](const char* pointer, const char* value) {
    Json json = small_llama();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return message_of<IoError>([&] { read_tokenizer(json); });
  };
  EXPECT_THAT(refusal("/normalizer/normalizers/0/prepend", R"("_")"), HasSubstr("\"_\" is not"));
  EXPECT_THAT(refusal("/normalizer/normalizers/1/content", R"("_")"), HasSubstr("only spaces"));
  EXPECT_THAT(refusal("/normalizer/normalizers/0/type", R"("NFKC")"), HasSubstr("\"NFKC\" is not"));
  EXPECT_THAT(refusal("/decoder/decoders/3/start", "2"), HasSubstr("one space in front"));
  EXPECT_THAT(refusal("/decoder/decoders/1/type", R"("CTC")"), HasSubstr("\"CTC\" is not"));
  EXPECT_THAT(refusal("/pre_tokenizer", R"({"type":"Metaspace","replacement":"▁","split":true})"),
              HasSubstr("split: true is not supported"));
  EXPECT_THAT(refusal("/model/ignore_merges", "true"), HasSubstr("ignore_merges: true"));
  EXPECT_THAT(refusal("/model/vocab/the", "5"), HasSubstr("each once"));
  EXPECT_THAT(refusal("/model/vocab/the", "70000"), HasSubstr("each once"));
  EXPECT_THAT(refusal("/model/merges/0", R"("x y")"), HasSubstr("merges[0]: names \"x\""));
  EXPECT_THAT(refusal("/model/unk_token", R"("<what>")"), HasSubstr("unk_token: \"<what>\""));
  EXPECT_THAT(refusal("/added_tokens/1/normalized", "true"), HasSubstr("\"<s>\" is normalized"));
  EXPECT_THAT(message_of<IoError>([] { make_unigram(model_bytes(kPieces, true, true, 2)); }),
              HasSubstr("is unused, which is not supported with merges"));
}

TEST(SentencePieceBpe, DamagedFilesAreRefusedOrStillATokenizer) {
  Rng rng(37);
  const std::string good = small_llama().dump();
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    try {
      const auto tokenizer = tokenizer_from_hf({"t.json", damaged(rng, good)});
      tokenizer->decode(tokenizer->encode("the ab ﬁ １ мир\xff"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace mstrain
