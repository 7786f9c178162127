#include "core/data/unigram_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/data/tokenizer_files.h"
#include "core/io/protobuf.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<int32_t>;

struct TestPiece {
  const char* text;
  float score = 0;
  int kind = 1;  // normal, unknown, control, user, unused, byte
};

const std::vector<TestPiece> kPieces{
    {"<pad>", 0, 3}, {"</s>", 0, 3}, {"<unk>", 0, 2}, {"▁", -2},   {"a", -3},       {"b", -3.5F},
    {"ab", -4},      {"▁a", -3.2F},  {"▁ab", -8},     {"ba", -5},  {"▁the", -2.5F}, {"t", -4},
    {"h", -4},       {"e", -4},      {"é", -4.5F},    {"мир", -6}, {"[X]", 0, 4},   {"bb", -1, 5}};

std::string model_bytes(const std::vector<TestPiece>& pieces, bool extra = true, bool prefix = true,
                        uint64_t type = 1) {
  ProtobufWriter model;
  for (const TestPiece& piece : pieces) {
    ProtobufWriter message;
    message.bytes(1, piece.text).fixed32(2, piece.score);
    if (piece.kind != 1) {
      message.varint(3, static_cast<uint64_t>(piece.kind));
    }
    model.message(1, message);
  }
  ProtobufWriter trainer;
  trainer.varint(3, type);
  model.message(2, trainer);
  ProtobufWriter normalizer;
  normalizer.bytes(1, "identity").varint(3, prefix ? 1 : 0).varint(4, extra ? 1 : 0).varint(5, 1);
  model.message(3, normalizer);
  return model.text();
}

std::shared_ptr<const Tokenizer> make(const std::string& bytes) {
  return tokenizer_from_sentencepiece({"t.model", bytes});
}

TEST(UnigramModel, FindsTheBestOfAllWays) {
  Rng rng(17);
  for (int round = 0; round < 300; ++round) {
    std::vector<UnigramModel::Piece> pieces;
    for (int32_t id = 0; id < 12; ++id) {
      std::string text;
      for (uint64_t i = 1 + rng.below(3); i > 0; --i) {
        text.push_back(static_cast<char>('a' + rng.below(3)));
      }
      const auto same = [&](const UnigramModel::Piece& piece) { return piece.text == text; };
      if (std::none_of(pieces.begin(), pieces.end(), same)) {
        pieces.push_back({text, -1 - 10 * rng.uniform(), id});
      }
    }
    const UnigramModel model(pieces, -30);
    std::string text;
    for (uint64_t i = rng.below(12); i > 0; --i) {
      text.push_back(static_cast<char>('a' + rng.below(4)));
    }
    UnigramModel::Work work;
    model.cut(text, work);
    double found = 0;
    size_t at = 0;
    for (const UnigramModel::Part& part : work.parts) {
      const auto is_it = [&](const UnigramModel::Piece& piece) { return piece.id == part.id; };
      const auto piece = std::find_if(pieces.begin(), pieces.end(), is_it);
      found += piece == pieces.end() ? -30 : piece->score;
      ASSERT_TRUE(piece == pieces.end() || piece->text == text.substr(at, part.size));
      at += part.size;
    }
    ASSERT_EQ(at, text.size());
    // Every way, from the right.
    std::vector<double> best(text.size() + 1, -1e9);
    best[text.size()] = 0;
    for (size_t i = text.size(); i-- > 0;) {
      bool single = false;
      for (const UnigramModel::Piece& piece : pieces) {
        if (text.compare(i, piece.text.size(), piece.text) == 0) {
          best[i] = std::max(best[i], piece.score + best[i + piece.text.size()]);
          single = single || piece.text.size() == 1;
        }
      }
      if (!single) {
        best[i] = std::max(best[i], -30 + best[i + 1]);
      }
    }
    ASSERT_NEAR(found, best[0], 1e-9) << "round " << round << ": " << text;
  }
}

TEST(UnigramTokenizer, EncodesAndDecodes) {
  const auto tokenizer = make(model_bytes(kPieces));
  EXPECT_EQ(tokenizer->name(), "unigram");
  EXPECT_EQ(tokenizer->vocab_size(), 18);
  EXPECT_THAT(tokenizer->encode("the ab"), ElementsAre(10, 3, 6));
  EXPECT_THAT(tokenizer->encode("  the   a "), ElementsAre(10, 7));
  EXPECT_THAT(tokenizer->encode(""), IsEmpty());
  EXPECT_THAT(tokenizer->encode("   "), IsEmpty());
  EXPECT_THAT(tokenizer->encode("xyz a"), ElementsAre(3, 2, 7));  // unknown ones fuse
  EXPECT_THAT(tokenizer->encode("xay"), ElementsAre(3, 2, 4, 2));
  EXPECT_THAT(tokenizer->encode("a[X]b"), ElementsAre(7, 16, 5));  // the user's piece wins
  EXPECT_THAT(tokenizer->encode("bb"), ElementsAre(3, 5, 5));      // an unused one never matches
  EXPECT_THAT(tokenizer->encode("a\xff\xfe"
                                "b"),
              ElementsAre(7, 2, 5));
  EXPECT_EQ(tokenizer->decode(Ids{10, 3, 6, 1}), "the ab");
  EXPECT_EQ(tokenizer->decode(Ids{7, 2}), "a \u2047 ");
  EXPECT_THAT(tokenizer->special().after, ElementsAre(1));
  EXPECT_THROW(tokenizer->decode(Ids{18}), Error);
}

TEST(UnigramTokenizer, OptionsOfTheModelAreHonoured) {
  const auto keeping = make(model_bytes(kPieces, /*extra=*/false));
  EXPECT_THAT(keeping->encode(" a  b "), ElementsAre(3, 7, 3, 3, 5, 3));
  const auto bare = make(model_bytes(kPieces, /*extra=*/true, /*prefix=*/false));
  EXPECT_THAT(bare->encode(" ab a"), ElementsAre(6, 7));
  EXPECT_THAT(message_of<IoError>([] { make(model_bytes(kPieces, true, true, 2)); }),
              HasSubstr("model_type bpe is not implemented"));
}

TEST(UnigramTokenizer, SentinelsComeFromTheConfigurationBesideIt) {
  const std::string bytes = model_bytes(kPieces);
  const auto tokenizer =
      tokenizer_from_sentencepiece({"t.model", bytes}, {"t.json", R"({"extra_ids": 2})"});
  EXPECT_EQ(tokenizer->vocab_size(), 20);
  EXPECT_THAT(tokenizer->encode("a<extra_id_0> b<extra_id_1>"), ElementsAre(7, 19, 3, 5, 18));
  EXPECT_EQ(tokenizer->files().size(), 2);
}

Json small_unigram() {
  Json vocab = Json::array();
  for (const TestPiece& piece : kPieces) {
    vocab.push_back({piece.text, piece.score});
  }
  const Json metaspace{{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", true}};
  return {{"version", "1.0"},
          {"added_tokens", Json::parse(R"([{"id":1,"content":"</s>","special":true,
             "normalized":false},{"id":20,"content":"<extra_id_0>","special":true,
             "normalized":false,"single_word":false,"lstrip":false,"rstrip":false}])")},
          {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", ""}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers", Json::array({Json{{"type", "WhitespaceSplit"}}, metaspace})}}},
          {"post_processor",
           Json::parse(R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},
             {"SpecialToken":{"id":"</s>"}}],"pair":[],
             "special_tokens":{"</s>":{"id":"</s>","ids":[1],"tokens":["</s>"]}}})")},
          {"decoder", metaspace},
          {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocab}}}};
}

std::shared_ptr<const Tokenizer> make(const Json& json) {
  return tokenizer_from_hf({"t.json", json.dump()});
}

TEST(UnigramTokenizer, ReadsTokenizerJson) {
  Json json = small_unigram();
  EXPECT_THAT(make(json)->encode("the\n ab</s>a\u3000b"), ElementsAre(10, 3, 6, 1, 7, 3, 5));
  EXPECT_THAT(make(json)->encode("a<extra_id_0>"), ElementsAre(7, 20));
  EXPECT_EQ(make(json)->vocab_size(), 21);
  EXPECT_EQ(make(json)->decode(Ids{10, 3, 6, 20}), "the ab<extra_id_0>");
  EXPECT_THAT(make(json)->special().after, ElementsAre(1));
  EXPECT_EQ(make(json)->end_of_text(), 1);

  json["pre_tokenizer"] = json["decoder"];
  EXPECT_THAT(make(json)->encode("a  ab "), ElementsAre(7, 3, 3, 6, 3));
  EXPECT_THAT(make(json)->encode(" a</s>a"), ElementsAre(7, 1, 7));
  json["pre_tokenizer"]["prepend_scheme"] = "first";
  EXPECT_THAT(make(json)->encode("a</s>a"), ElementsAre(7, 1, 4));
  EXPECT_THAT(make(json)->encode("</s>a"), ElementsAre(1, 4));
  json["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_THAT(make(json)->encode("ab"), ElementsAre(6));
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  json["normalizer"] = Json::parse(R"({"type":"Sequence","normalizers":[{"type":"Precompiled",
      "precompiled_charsmap":""},{"type":"Strip","strip_left":false,"strip_right":true},
      {"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"}]})");
  EXPECT_THAT(make(json)->encode("  a   ab  "), ElementsAre(7, 3, 6));
}

TEST(UnigramTokenizer, WhatIsNotImplementedIsRefusedByName) {
  const auto refusal = [](const char* pointer, const char* value) {
    Json json = small_unigram();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return message_of<IoError>([&] { make(json); });
  };
  EXPECT_THAT(refusal("/normalizer/type", R"("NFD")"), HasSubstr("\"NFD\" is not implemented"));
  EXPECT_THAT(refusal("/normalizer/precompiled_charsmap", R"("a*")"), HasSubstr("no base64 at"));
  EXPECT_THAT(refusal("/normalizer/precompiled_charsmap", R"("AAAAAAA")"), HasSubstr("has a trie"));
  EXPECT_THAT(refusal("/pre_tokenizer", R"({"type":"BertPreTokenizer"})"), HasSubstr("Bert"));
  EXPECT_THAT(refusal("/decoder/replacement", R"("_")"), HasSubstr("\"_\" is not implemented"));
  EXPECT_THAT(refusal("/model/unk_id", "99"), HasSubstr("99 is no piece"));
  EXPECT_THAT(refusal("/model/vocab/3", R"(["x"])"), HasSubstr("vocab[3]: expected a piece"));
  EXPECT_THAT(refusal("/model/vocab/3", R"(["a", 1])"), HasSubstr("\"a\" occurs twice"));
  EXPECT_THAT(refusal("/model/vocab/3", R"(["", 1])"), HasSubstr("piece 3 is empty"));
  EXPECT_THAT(refusal("/model/byte_fallback", "true"), HasSubstr("no piece <0x00>"));
  EXPECT_THAT(refusal("/added_tokens/1/id", "4000000"), HasSubstr("far outside"));
  EXPECT_THAT(refusal("/added_tokens/1/id", "4"), HasSubstr("belongs to both"));
}

TEST(UnigramTokenizer, UnknownCharactersFallBackToBytes) {
  Json json = small_unigram();
  for (int byte = 0; byte < 256; ++byte) {
    json["model"]["vocab"].push_back({fmt::format("<0x{:02X}>", byte), -9.0});
  }
  json["added_tokens"].erase(1);
  json["model"]["byte_fallback"] = true;
  const auto tokenizer = make(json);
  EXPECT_THAT(tokenizer->encode("aß"), ElementsAre(7, 18 + 0xC3, 18 + 0x9F));
  EXPECT_EQ(tokenizer->decode(Ids{7, 18 + 0xC3, 18 + 0x9F}), "aß");
}

TEST(UnigramTokenizer, PartsOfATextGiveTheIdsOfTheWhole) {
  Json split = small_unigram();
  Json plain = small_unigram();
  plain["pre_tokenizer"] = plain["decoder"];
  const std::shared_ptr<const Tokenizer> all[] = {
      make(model_bytes(kPieces)), make(model_bytes(kPieces, false)),
      make(model_bytes(kPieces, true, false)), make(split), make(plain)};
  Rng rng(23);
  for (const auto& tokenizer : all) {
    for (int round = 0; round < 100; ++round) {
      const std::string text = random_text(rng, rng.below(200));
      Ids ids;
      EncodeState state;
      size_t begin = 0;
      size_t end = 0;
      while (end < text.size()) {
        end = std::min(text.size(), end + 1 + rng.below(150));
        begin +=
            tokenizer->encode_some(text.substr(begin, end - begin), end == text.size(), state, ids);
      }
      ASSERT_EQ(ids, tokenizer->encode(text)) << round << testing::PrintToString(text);
    }
  }
}

TEST(UnigramFiles, DamagedFilesAreRefusedOrStillATokenizer) {
  Rng rng(31);
  const std::string real = real_data("unigram/test_model.model");
  const std::string big = real.empty() ? "" : real_files().read(real);
  const std::string model = model_bytes(kPieces);
  const std::string json = small_unigram().dump();
  int refused = 0;
  const auto attempt = [&](auto load) {
    try {
      const std::shared_ptr<const Tokenizer> tokenizer = load();
      tokenizer->encode("the ab ﬁ １ мир\xff");
      tokenizer->decode(Ids{0});
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::AnyOf(testing::StartsWith("t.m"), HasSubstr("t.json"),
                                               HasSubstr("t.model")));
    }
  };
  for (int round = 0; round < 1500; ++round) {
    attempt([&] { return make(damaged(rng, model)); });
    attempt([&] { return tokenizer_from_hf({"t.json", damaged(rng, json)}); });
    if (!big.empty() && round < 60) {
      attempt([&] { return make(damaged(rng, big)); });
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_THAT(message_of<IoError>([&] { make(model.substr(0, 30)); }),
              HasSubstr("t.model: offset"));
  EXPECT_THAT(message_of<IoError>([&] { make(std::string()); }), HasSubstr("no pieces"));
  EXPECT_THAT(message_of<IoError>([&] {
                make(model_bytes({{"a", std::nanf("")}}));
              }),
              HasSubstr("piece 0 \"a\" has the score nan"));
}

class SharedUnigram : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = real_data("unigram/test_model.model");
    if (path.empty()) {
      GTEST_SKIP() << "unigram/test_model.model is not in MSTRAIN_TEST_DATA";
    }
    tokenizer_ = load_tokenizer(real_files(), path);
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(SharedUnigram, GivesTheKnownIds) {
  EXPECT_EQ(tokenizer_->vocab_size(), 1000);
  EXPECT_THAT(tokenizer_->encode("I saw a girl with a telescope."),
              ElementsAre(9, 459, 11, 939, 44, 11, 4, 142, 82, 8, 28, 21, 132, 6));
  EXPECT_THAT(tokenizer_->encode("hello world"), ElementsAre(39, 88, 21, 887));
  EXPECT_EQ(tokenizer_->encode("ｈｅｌｌｏ　ｗｏｒｌｄ"), tokenizer_->encode("hello world"));
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode("I saw a girl with a telescope.")),
            "I saw a girl with a telescope.");
}

}  // namespace
}  // namespace mstrain
