#include "core/data/pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/data/documents.h"
#include "core/data/seq2seq_samples.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DataConfig chars(const std::string& path) {
  DataConfig config;
  config.train = {{path, {}}};
  config.tokenizer.type = TokenizerType::kChar;
  return config;
}

std::string ten_pairs() {
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += fmt::format("{{\"input\": \"{}ab\", \"target\": \"{}\"}}\n", i, i);
  }
  return text;
}

TEST(Pairs, ReadsJsonLinesAndHoldsOutTheirEnd) {
  const Scratch scratch;
  DataConfig config = chars(scratch.write("a.jsonl", ten_pairs()));
  config.split = 0.8;
  const PairCorpus corpus = open_pairs(real_files(), config, {});
  EXPECT_EQ(corpus.tokenizer->vocab_size(), 12);
  ASSERT_EQ(corpus.train.size(), 1U);
  EXPECT_EQ(corpus.train[0].pairs->size(), 8);
  ASSERT_EQ(corpus.valid.size(), 1U);
  ASSERT_EQ(corpus.valid[0].pairs->size(), 2);
  EXPECT_THAT(corpus.valid[0].pairs->source(0), ElementsAre(8, 10, 11));
  EXPECT_THAT(corpus.valid[0].pairs->target(1), ElementsAre(9));
  config.split = 1;
  EXPECT_TRUE(open_pairs(real_files(), config, {}).valid.empty());
  EXPECT_NE(open_pairs(real_files(), config, {}).identity, corpus.identity);
}

TEST(Pairs, AreReadWithTheTokensThatTheModelNames) {
  const Scratch scratch;
  DataConfig config =
      chars(scratch.write("a.jsonl", R"({"input": "<extra_id_0>a", "target": "<extra_id_1>"})"));
  config.tokenizer.type = TokenizerType::kByte;
  config.split = 1;
  const auto source = [&](const Seq2SeqVocabulary::OfModel& model) {
    const PairCorpus corpus = open_pairs(real_files(), config, model);
    const auto ids = corpus.train[0].pairs->source(0);
    return std::vector<int32_t>(ids.begin(), ids.end());
  };
  EXPECT_THAT(source({.sentinels = 2}), ElementsAre(259, 'a'));
  EXPECT_THAT(source({.sentinels = 2, .pad = 0, .end = 1}), ElementsAre(257, 'a'));
}

TEST(Pairs, NamesWhatCannotBeRead) {
  const Scratch scratch;
  const auto message = [&](const std::string& text) {
    return message_of<IoError>(
        [&] { open_pairs(real_files(), chars(scratch.write("a.jsonl", text)), {}); });
  };
  EXPECT_THAT(message("{\"input\": \"a\"}\n"), HasSubstr("a.jsonl:1: from byte 0: expected a JSON "
                                                         "object with `target`"));
  EXPECT_THAT(message("\n{\"input\": 3, \"target\": \"\"}"),
              HasSubstr(":2: from byte 1: `input` is no string"));
  EXPECT_THAT(message("nonsense"), HasSubstr("a.jsonl:1: from byte 0"));
  EXPECT_THAT(message("\n"), HasSubstr("holds no pair"));
  EXPECT_THAT(message_of<IoError>(
                  [&] { open_pairs(real_files(), chars(scratch.write("a.txt", "text")), {}); }),
              HasSubstr("a.txt: expected pairs as JSON lines"));
}

TEST(Pairs, SurvivesArbitraryLines) {
  const std::string line = R"({"input": "a\u00e9b", "target": "x", "more": [1, {"y": null}]})";
  Rng rng(5);
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = line;
    for (uint64_t change = rng.below(4); change-- > 0;) {
      const size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0: text[at] = static_cast<char>(rng.below(256)); break;
        case 1: text.erase(at, rng.below(5)); break;
        default: text.insert(at, text.substr(rng.below(text.size()), rng.below(5))); break;
      }
      text += text.empty() ? " " : "";
    }
    try {
      pair_of_line(text, "x", 1, 0);
      ++read;
    } catch (const IoError&) {  // says what is wrong
    }
  }
  EXPECT_GT(read, 1000);
}

std::shared_ptr<Pairs> some_pairs() {
  auto pairs = std::make_shared<Pairs>();
  const std::vector<int32_t> ids{1, 2, 3, 4, 5, 6, 7, 8};
  for (const auto& [from, to] : {std::pair(2, 1), {3, 3}, {1, 1}, {8, 2}, {1, 8}}) {
    pairs->add(std::span(ids).first(static_cast<size_t>(from)),
               std::span(ids).last(static_cast<size_t>(to)));
  }
  return pairs;
}

struct Row {
  std::vector<int32_t> source = std::vector<int32_t>(8), source_segments = source, target = source,
                       labels = source, target_segments = source;
  Seq2SeqRow parts() { return {source, source_segments, target, labels, target_segments}; }
};

TEST(PairRows, PackWhatFitsAndCutWhatIsLonger) {
  const RowTokens tokens{.pad = 0, .start = 90, .end = 99};
  const PairRows rows(some_pairs(), 8, 8, /*packing=*/true);
  EXPECT_EQ(rows.cut(), 2);
  ASSERT_EQ(rows.count(), 4);
  Row row;
  rows.read(0, tokens, row.parts());
  EXPECT_THAT(row.source, ElementsAre(1, 2, 99, 1, 2, 3, 99, 0));
  EXPECT_THAT(row.source_segments, ElementsAre(1, 1, 1, 2, 2, 2, 2, 0));
  EXPECT_THAT(row.labels, ElementsAre(8, 99, 6, 7, 8, 99, kIgnoreTarget, kIgnoreTarget));
  EXPECT_THAT(row.target, ElementsAre(90, 8, 90, 6, 7, 8, 0, 0));
  EXPECT_THAT(row.target_segments, ElementsAre(1, 1, 2, 2, 2, 2, 0, 0));
  rows.read(2, tokens, row.parts());
  EXPECT_THAT(row.source, ElementsAre(1, 2, 3, 4, 5, 6, 7, 99));
  rows.read(3, tokens, row.parts());
  EXPECT_THAT(row.labels, ElementsAre(1, 2, 3, 4, 5, 6, 7, 99));
}

TEST(PairRows, UnpackedHoldOnePairEach) {
  const PairRows rows(some_pairs(), 9, 9, /*packing=*/false);
  EXPECT_EQ(rows.cut(), 0);
  EXPECT_EQ(rows.count(), 5);
  EXPECT_EQ(rows.rows(), Rows::kPadded);
}

TEST(TrainingPairs, EachPassVisitsEveryRowOnce) {
  auto pairs = std::make_shared<Pairs>();
  for (int32_t i = 0; i < 11; ++i) {
    pairs->add(std::span(&i, 1), std::span(&i, 1));
  }
  const auto rows = std::make_shared<PairRows>(pairs, 8, 8, false);
  const TrainingPairs training({{rows, 1}}, {.pad = 0, .start = 0, .end = 99}, true, 3);
  std::vector<std::vector<int32_t>> passes;
  for (int64_t pass = 0; pass < 3; ++pass) {
    std::vector<int32_t>& seen = passes.emplace_back();
    for (int64_t i = 0; i < 11; ++i) {
      Row row;
      training.read(11 * pass + i, row.parts());
      seen.push_back(row.source[0]);
    }
  }
  EXPECT_NE(passes[0], passes[1]);
  for (std::vector<int32_t>& seen : passes) {
    std::sort(seen.begin(), seen.end());
    EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  }
}

}  // namespace
}  // namespace mstrain
