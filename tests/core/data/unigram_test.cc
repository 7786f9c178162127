#include "core/data/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/tokenizer_files.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"
#include "tests/core/data/small_unigram.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<int32_t>;

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

TEST(SentencePieceTokenizer, EncodesAndDecodes) {
  const auto tokenizer = make_unigram(model_bytes(kPieces));
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
  EXPECT_EQ(tokenizer->decode_further(Ids{10, 3, 6, 1}), " the ab");
  EXPECT_THAT(tokenizer->special().after, ElementsAre(1));
  EXPECT_THROW(tokenizer->decode(Ids{18}), Error);
}

TEST(SentencePieceTokenizer, OptionsOfTheModelAreHonoured) {
  const auto keeping = make_unigram(model_bytes(kPieces, /*extra=*/false));
  EXPECT_THAT(keeping->encode(" a  b "), ElementsAre(3, 7, 3, 3, 5, 3));
  const auto bare = make_unigram(model_bytes(kPieces, /*extra=*/true, /*prefix=*/false));
  EXPECT_THAT(bare->encode(" ab a"), ElementsAre(6, 7));
  EXPECT_THAT(message_of<IoError>([] { make_unigram(model_bytes(kPieces, true, true, 3)); }),
              HasSubstr("model_type word is not supported"));
}

TEST(SentencePieceTokenizer, SentinelsComeFromTheConfigurationBesideIt) {
  const std::string bytes = model_bytes(kPieces);
  const auto tokenizer =
      tokenizer_from_sentencepiece({"t.model", bytes}, {"t.json", R"({"extra_ids": 2})"});
  EXPECT_EQ(tokenizer->vocab_size(), 20);
  EXPECT_THAT(tokenizer->encode("a<extra_id_0> b<extra_id_1>"), ElementsAre(7, 19, 3, 5, 18));
  EXPECT_EQ(tokenizer->files().size(), 2);
}

TEST(SentencePieceTokenizer, ReadsTokenizerJson) {
  Json json = small_unigram();
  EXPECT_THAT(make_unigram(json)->encode("the\n ab</s>a\u3000b"),
              ElementsAre(10, 3, 6, 1, 7, 3, 5));
  EXPECT_THAT(make_unigram(json)->encode("a<extra_id_0>"), ElementsAre(7, 20));
  EXPECT_EQ(make_unigram(json)->vocab_size(), 21);
  EXPECT_EQ(make_unigram(json)->decode(Ids{10, 3, 6, 20}), "the ab<extra_id_0>");
  EXPECT_THAT(make_unigram(json)->special().after, ElementsAre(1));
  EXPECT_EQ(make_unigram(json)->end_of_text(), 1);

  json["pre_tokenizer"] = json["decoder"];
  EXPECT_THAT(make_unigram(json)->encode("a  ab "), ElementsAre(7, 3, 3, 6, 3));
  EXPECT_THAT(make_unigram(json)->encode(" a</s>a"), ElementsAre(7, 1, 7));
  json["pre_tokenizer"]["prepend_scheme"] = "first";
  EXPECT_THAT(make_unigram(json)->encode("a</s>a"), ElementsAre(7, 1, 4));
  EXPECT_THAT(make_unigram(json)->encode("</s>a"), ElementsAre(1, 4));
  json["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_THAT(make_unigram(json)->encode("ab"), ElementsAre(6));
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  json["normalizer"] = Json::parse(R"({"type":"Sequence","normalizers":[{"type":"Precompiled",
      "precompiled_charsmap":""},{"type":"Strip","strip_left":false,"strip_right":true},
      {"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"}]})");
  EXPECT_THAT(make_unigram(json)->encode("  a   ab  "), ElementsAre(7, 3, 6));
  EXPECT_THAT(make_unigram(json)->encode("a \n\u00a0 "), ElementsAre(7));
  json["normalizer"]["normalizers"][1]["strip_left"] = true;
  EXPECT_THAT(make_unigram(json)->encode("\u3000\n  a\t"), ElementsAre(7));
  EXPECT_THAT(make_unigram(json)->encode("a\nb"), ElementsAre(7, 2, 5));
}

TEST(SentencePieceTokenizer, TextThatOnlySpellsASpecialTokenIsNotThatToken) {
  const auto tokenizer = make_unigram(small_unigram());
  const std::string text = "a</s>b";
  EXPECT_THAT(tokenizer->encode(text, std::string(text.size(), '\1')), ElementsAre(7, 2, 5));
  EXPECT_THAT(tokenizer->encode(text), ElementsAre(7, 1, 3, 5));
  EXPECT_EQ(tokenizer->decode(Ids{7, 1}), "a</s>");
}

TEST(SentencePieceTokenizer, UnknownCharactersFallBackToBytes) {
  Json json = small_unigram();
  for (int byte = 0; byte < 256; ++byte) {
    json["model"]["vocab"].push_back({fmt::format("<0x{:02X}>", byte), -9.0});
  }
  json["added_tokens"].erase(1);
  json["model"]["byte_fallback"] = true;
  const auto tokenizer = make_unigram(json);
  EXPECT_THAT(tokenizer->encode("aß"), ElementsAre(7, 18 + 0xC3, 18 + 0x9F));
  EXPECT_EQ(tokenizer->decode(Ids{7, 18 + 0xC3, 18 + 0x9F}), "aß");
}

TEST(SentencePieceTokenizer, PartsOfATextGiveTheIdsOfTheWhole) {
  Json split = small_unigram();
  Json plain = small_unigram();
  plain["pre_tokenizer"] = plain["decoder"];
  Json stripped = plain;
  stripped["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  const std::shared_ptr<const Tokenizer> all[] = {make_unigram(model_bytes(kPieces)),
                                                  make_unigram(model_bytes(kPieces, false)),
                                                  make_unigram(model_bytes(kPieces, true, false)),
                                                  make_unigram(split),
                                                  make_unigram(plain),
                                                  make_unigram(stripped)};
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
