#include "core/data/span_corruption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/hf_simple.h"
#include "core/data/seq2seq_loader.h"
#include "core/data/simple_tokenizers.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kSentinels = 100;

std::shared_ptr<const Seq2SeqVocabulary> bytes() {
  return std::make_shared<const Seq2SeqVocabulary>(
      std::make_shared<ByteTokenizer>(), Seq2SeqVocabulary::OfModel{.sentinels = kSentinels});
}

TEST(Seq2SeqVocabulary, PutsWhatATokenizerLacksAboveItsIds) {
  const auto vocabulary = bytes();
  EXPECT_EQ(vocabulary->pad(), 256);
  EXPECT_EQ(vocabulary->end(), 257);
  EXPECT_EQ(vocabulary->size(), 258 + kSentinels);
  EXPECT_EQ(vocabulary->sentinel(0), vocabulary->size() - 1);
  EXPECT_EQ(vocabulary->sentinel(kSentinels - 1), 258);
}

TEST(Seq2SeqVocabulary, IsToldInHuggingFacesFormat) {
  const ByteTokenizer tokenizer;
  const TokensBeside beside =
      Seq2SeqVocabulary(std::make_shared<ByteTokenizer>(), {.sentinels = 2}).beside();
  const std::vector<TokenizerFile> files = hugging_face_files(tokenizer, beside);
  const Json json = parse_json(files.at(0).bytes, "tokenizer.json");
  const std::vector<std::string> expected{"<pad>", "</s>", "<extra_id_1>", "<extra_id_0>"};
  ASSERT_EQ(json["added_tokens"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(json["added_tokens"][i]["id"], 256 + i);
    EXPECT_EQ(json["added_tokens"][i]["content"], expected[i]);
  }
  EXPECT_EQ(json["post_processor"]["special_tokens"]["</s>"]["ids"], Json::array({257}));
  const Json config = parse_json(files.at(1).bytes, "tokenizer_config.json");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_EQ(config["pad_token"], "<pad>");
  // A model of the tokenizer's ids alone has none of it, and one that ends with a byte the byte's id.
  const Json alone = parse_json(hugging_face_files(tokenizer)[0].bytes, "tokenizer.json");
  EXPECT_TRUE(alone["added_tokens"].empty());
  EXPECT_TRUE(alone["post_processor"].is_null());
  const Seq2SeqVocabulary of_model(std::make_shared<ByteTokenizer>(), {.pad = 0, .end = 1});
  EXPECT_TRUE(of_model.beside().added.empty());
  EXPECT_EQ(of_model.beside().end, 1);
}

TEST(Seq2SeqVocabulary, ReadsAndWritesSentinelsByTheirNames) {
  const auto vocabulary = bytes();
  const std::vector<int32_t> ids = vocabulary->encode("a<extra_id_1>b<extra_id_99><extra_id_100>");
  ASSERT_EQ(ids.size(), 4U + 14);  // <extra_id_100> is text
  EXPECT_EQ(ids[0], 'a');
  EXPECT_EQ(ids[1], vocabulary->sentinel(1));
  EXPECT_EQ(ids[3], vocabulary->sentinel(99));
  std::string text;
  for (const int32_t id : ids) {
    text += vocabulary->piece(id, text.empty());
  }
  EXPECT_EQ(text, "a<extra_id_1>b<extra_id_99><extra_id_100>");
  EXPECT_EQ(vocabulary->piece(vocabulary->end(), false), "");
  EXPECT_EQ(vocabulary->piece(vocabulary->pad(), false), "");
  EXPECT_EQ(vocabulary->piece(100000, false), "");
}

// Bytes, and these tokens behind them.
std::shared_ptr<const Tokenizer> bytes_and(const std::vector<std::string>& added) {
  return tokenizer_from_hf(
      {"t.json", hugging_face_files(ByteTokenizer(), {.added = added}).at(0).bytes});
}

TEST(Seq2SeqVocabulary, TakesTheSentinelsThatATokenizerHasAsTheyAre) {
  const Seq2SeqVocabulary ascending(
      bytes_and({"<pad>", "</s>", "<extra_id_0>", "<extra_id_1>", "--", "<extra_id_2>"}),
      {.sentinels = 100, .end = 257});
  EXPECT_EQ(ascending.size(), 262);
  EXPECT_EQ(ascending.sentinels(), 3);
  EXPECT_THAT(ascending.encode("a<extra_id_2>"), ElementsAre('a', ascending.sentinel(2)));
  EXPECT_EQ(ascending.sentinel(2), 261);
  EXPECT_EQ(ascending.piece(259, false), "<extra_id_1>");
  EXPECT_TRUE(ascending.beside().added.empty());

  const Seq2SeqVocabulary few(bytes_and({"<extra_id_1>", "<extra_id_0>"}), {.sentinels = 100});
  EXPECT_EQ(few.sentinels(), 2);
  EXPECT_EQ(few.sentinel(1), 256);
  EXPECT_THAT([&] { few.sentinel(2); }, ThrowsMessage<Error>(HasSubstr("2 sentinels")));
}

TEST(Seq2SeqVocabulary, TakesNoUnknownTextForASentinel) {
  Json json = small_bpe({});
  json["pre_tokenizer"]["use_regex"] = false;
  json["model"]["unk_token"] = "z";
  json["model"]["fuse_unk"] = true;
  for (const char c : std::string_view("<extra_id_0123456789>")) {
    json["model"]["vocab"].erase(std::string(1, c));
  }
  const Seq2SeqVocabulary vocabulary(read_tokenizer(json), {.sentinels = 2});
  ASSERT_THAT(vocabulary.tokenizer().encode("<extra_id_0>"), ElementsAre('z'));
  EXPECT_EQ(vocabulary.sentinels(), 2);
  EXPECT_EQ(vocabulary.sentinel(0), vocabulary.size() - 1);
}

// random_spans_helper of T5 (github.com/google-research/text-to-text-transfer-transformer, preprocessors.py) for sources of
// 512 tokens.
TEST(SpanCorruption, HasThePublishedLengths) {
  const SpanCorruption corruption({.rate = 0.15, .mean_length = 3}, 512);
  EXPECT_EQ(corruption.longest().text, 568);
  EXPECT_EQ(corruption.longest().source(), 512);
  EXPECT_EQ(corruption.longest().target(), 114);
}

TEST(SpanCorruption, NoTextIsLongerThanTheLongest) {
  for (const double rate : {0.01, 0.15, 0.5, 0.9, 0.99}) {
    for (const double mean : {1.0, 2.5, 10.0}) {
      for (const int64_t length : {2, 3, 7, 64, 201}) {
        const SpanCorruption corruption({rate, mean}, length);
        const SpanCorruption::Sizes longest = corruption.longest();
        EXPECT_LE(longest.source(), length);
        for (int64_t text = 1; text <= longest.text; ++text) {
          const SpanCorruption::Sizes sizes = corruption.sizes_of(text);
          ASSERT_LE(sizes.source(), longest.source()) << text;
          ASSERT_LE(sizes.target(), longest.target()) << text;
          ASSERT_GE(sizes.cut, sizes.spans);
        }
      }
    }
  }
  EXPECT_THAT([] { SpanCorruption({}, 1); }, ThrowsMessage<Error>(HasSubstr("1 tokens")));
}

struct Corrupted {
  std::vector<int32_t> source, target;
};
Corrupted corrupt(const SpanCorruption& corruption, std::span<const int32_t> text, uint64_t seed) {
  const SpanCorruption::Sizes sizes = corruption.sizes_of(static_cast<int64_t>(text.size()));
  Corrupted out{std::vector<int32_t>(static_cast<size_t>(sizes.source())),
                std::vector<int32_t>(static_cast<size_t>(sizes.target()))};
  Rng rng(seed);
  corruption.corrupt(text, *bytes(), rng, out.source, out.target);
  return out;
}

// The text that a source and its target were made of.
std::vector<int32_t> restored(const Corrupted& from, const Seq2SeqVocabulary& vocabulary) {
  std::map<int32_t, std::vector<int32_t>> cut;
  int32_t at = -1;
  for (const int32_t id : from.target) {
    if (id >= 258) {
      at = id;
      cut[at] = {};
    } else if (id != vocabulary.end()) {
      cut[at].push_back(id);
    }
  }
  std::vector<int32_t> text;
  for (const int32_t id : from.source) {
    if (id >= 258) {
      text.insert(text.end(), cut.at(id).begin(), cut.at(id).end());
    } else if (id != vocabulary.end()) {
      text.push_back(id);
    }
  }
  return text;
}

TEST(SpanCorruption, SourceAndTargetTogetherAreTheText) {
  const auto vocabulary = bytes();
  for (const double rate : {0.15, 0.5, 0.85}) {
    const SpanCorruption corruption({rate, 3}, 60);
    for (int64_t length = 1; length <= corruption.longest().text; ++length) {
      std::vector<int32_t> text(static_cast<size_t>(length));
      for (size_t i = 0; i < text.size(); ++i) {
        text[i] = static_cast<int32_t>(i % 251);
      }
      const Corrupted made = corrupt(corruption, text, static_cast<uint64_t>(length));
      ASSERT_EQ(restored(made, *vocabulary), text);
      EXPECT_EQ(made.source.back(), vocabulary->end());
      EXPECT_EQ(made.target.back(), vocabulary->end());
      EXPECT_EQ(made.target.front(), vocabulary->sentinel(0));
      EXPECT_EQ(length == 1, made.source.front() == vocabulary->sentinel(0));
    }
  }
}

TEST(SpanCorruption, CutsEveryPlaceAboutAsOften) {
  const SpanCorruption corruption({}, 30);
  std::vector<int32_t> text(static_cast<size_t>(corruption.longest().text));
  std::iota(text.begin(), text.end(), 0);
  std::vector<int64_t> counts(text.size());
  constexpr int64_t kDraws = 4000;
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    for (const int32_t id : corrupt(corruption, text, static_cast<uint64_t>(draw)).target) {
      if (id < 258 && id < static_cast<int32_t>(text.size())) {
        ++counts[static_cast<size_t>(id)];
      }
    }
  }
  EXPECT_EQ(counts[0], 0);  // a text begins with what stays
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}),
            kDraws * corruption.longest().cut);
  for (size_t i = 1; i + 1 < counts.size(); ++i) {
    EXPECT_GT(counts[i], 0) << i;
  }
}

std::shared_ptr<const Seq2SeqSource> source_of(TokenStreamPtr stream, bool packing, uint64_t seed) {
  const SpanCorruption corruption({}, 40);
  auto windows = std::make_shared<TrainingWindows>(
      std::vector<WeightedStream>{{std::move(stream)}},
      TrainingWindows::Options{
          .seq_length = corruption.longest().text, .seed = seed, .packing = packing});
  return std::make_shared<CorruptedWindows>(
      windows, corruption, bytes(), RowTokens{.pad = 256, .start = 256, .end = 257}, packing, seed);
}

TokenStreamPtr text_stream() {
  std::vector<int32_t> tokens(3000);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>((i * i) % 256);
  }
  return memory_stream(std::move(tokens), {100, 103, 1500, 3000});
}

std::vector<Seq2SeqBatch> batches(const std::shared_ptr<const Seq2SeqSource>& source, int workers,
                                  int64_t first, int count) {
  Seq2SeqLoader loader(source, {.batch = 3, .workers = workers}, {first});
  std::vector<Seq2SeqBatch> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(loader.next());
  }
  return out;
}

bool equal(const Seq2SeqBatch& a, const Seq2SeqBatch& b) {
  return a.source == b.source && a.source_segments == b.source_segments && a.target == b.target &&
         a.labels == b.labels && a.target_segments == b.target_segments;
}

TEST(CorruptedWindows, AreTheSameForAnyNumberOfWorkersAndGoOnExactly) {
  for (const bool packing : {true, false}) {
    const auto source = source_of(text_stream(), packing, 7);
    const auto expected = batches(source, 0, 0, 60);
    for (const int workers : {1, 4}) {
      const auto same = batches(source, workers, 0, 60);
      const auto later = batches(source, workers, 3 * 41, 19);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(equal(same[i], expected[i])) << i;
        if (i >= 41) {
          ASSERT_TRUE(equal(later[i - 41], expected[i])) << i;
        }
      }
    }
    EXPECT_FALSE(equal(batches(source_of(text_stream(), packing, 8), 0, 0, 1)[0], expected[0]));
  }
}

TEST(CorruptedWindows, PackedRowsAreFullAndOthersLieInOneDocument) {
  const auto packed = source_of(text_stream(), true, 7);
  for (const Seq2SeqBatch& batch : batches(packed, 0, 0, 30)) {
    EXPECT_TRUE(batch.source_segments.empty());
    EXPECT_EQ(std::count(batch.labels.begin(), batch.labels.end(), kIgnoreTarget), 0);
  }
  const auto alone = source_of(text_stream(), false, 7);
  int64_t padded = 0;
  for (const Seq2SeqBatch& batch : batches(alone, 0, 0, 60)) {
    for (size_t i = 0; i < batch.source.size(); ++i) {
      padded += batch.source_segments[i] == 0 ? 1 : 0;
      EXPECT_EQ(batch.source_segments[i] == 0, batch.source[i] == 256);
    }
    for (size_t i = 0; i < batch.target.size(); ++i) {
      const bool begins = i % static_cast<size_t>(alone->target_length()) == 0;
      EXPECT_EQ(batch.target[i],
                begins || batch.labels[i] == kIgnoreTarget ? 256 : batch.labels[i - 1]);
    }
  }
  EXPECT_GT(padded, 0);
}

TEST(WholeWindows, EndWithTheText) {
  std::vector<int32_t> tokens(10);
  std::iota(tokens.begin(), tokens.end(), 0);
  const WholeWindows windows(memory_stream(tokens), 4);
  EXPECT_EQ(windows.samples(), 3);
  std::vector<int32_t> text(4);
  std::vector<int32_t> following(4);
  windows.read(2, text, following);
  EXPECT_THAT(text, ElementsAre(6, 7, 8, 9));
  windows.read(3, text, following);
  EXPECT_THAT(following, testing::Each(kIgnoreTarget));
  EXPECT_THROW(WholeWindows(memory_stream(tokens), 11), Error);
}

}  // namespace
}  // namespace mstrain
