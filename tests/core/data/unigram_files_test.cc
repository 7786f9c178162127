// What files of unigram tokenizers may not say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"
#include "tests/core/data/small_unigram.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

using Ids = std::vector<int32_t>;

TEST(UnigramFiles, WhatIsNotSupportedIsRefusedByName) {
  const auto refusal = [](const char* pointer, const char* value) {
    Json json = small_unigram();
    json[Json::json_pointer(pointer)] = Json::parse(value);
    return message_of<IoError>([&] { make_unigram(json); });
  };
  EXPECT_THAT(refusal("/normalizer/type", R"("NFD")"), HasSubstr("\"NFD\" is not supported"));
  EXPECT_THAT(refusal("/normalizer/precompiled_charsmap", R"("a*")"), HasSubstr("no base64 at"));
  EXPECT_THAT(refusal("/normalizer/precompiled_charsmap", R"("AAAAAAA")"), HasSubstr("has a trie"));
  EXPECT_THAT(refusal("/pre_tokenizer", R"({"type":"BertPreTokenizer"})"), HasSubstr("Bert"));
  EXPECT_THAT(refusal("/decoder/replacement", R"("_")"), HasSubstr("\"_\" is not supported"));
  EXPECT_THAT(refusal("/model/unk_id", "99"), HasSubstr("99 is no piece"));
  EXPECT_THAT(refusal("/post_processor/special_tokens/<~1s>/ids", "[21]"),
              HasSubstr("post_processor: id 21 is not below the vocabulary's size 21"));
  EXPECT_THAT(refusal("/model/vocab/3", R"(["x"])"), HasSubstr("vocab[3]: expected a piece"));
  EXPECT_THAT(refusal("/model/vocab/3", R"(["a", 1])"), HasSubstr("\"a\" occurs twice"));
  EXPECT_THAT(refusal("/model/vocab/3", R"(["", 1])"), HasSubstr("piece 3 is empty"));
  EXPECT_THAT(refusal("/model/byte_fallback", "true"), HasSubstr("no piece <0x00>"));
  EXPECT_THAT(refusal("/added_tokens/1/id", "4000000"), HasSubstr("far outside"));
  EXPECT_THAT(refusal("/added_tokens/1/id", "4"), HasSubstr("belongs to both"));
  const std::string model = model_bytes(kPieces);
  EXPECT_THAT(
      message_of<IoError>([&] {
        tokenizer_from_sentencepiece({"t.model", model}, {"t.json", R"({"extra_ids": 1000000})"});
      }),
      HasSubstr("t.json: extra_ids: expected an integer from 0 to 1042, found 1000000"));
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
    attempt([&] { return make_unigram(damaged(rng, model)); });
    attempt([&] { return tokenizer_from_hf({"t.json", damaged(rng, json)}); });
    if (!big.empty() && round < 60) {
      attempt([&] { return make_unigram(damaged(rng, big)); });
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_THAT(message_of<IoError>([&] { make_unigram(model.substr(0, 30)); }),
              HasSubstr("t.model: offset"));
  EXPECT_THAT(message_of<IoError>([&] { make_unigram(std::string()); }), HasSubstr("no pieces"));
  EXPECT_THAT(message_of<IoError>([&] {
                make_unigram(model_bytes({{"a", std::nanf("")}}));
              }),
              HasSubstr("t.model: offset 2: piece 0 \"a\" has the score nan"));
}

}  // namespace
}  // namespace mstrain
