#include "core/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/token_writer.h"
#include "tests/core/base/one_section.h"
#include "tests/core/data/scratch.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

DataConfig parse(const std::string& yaml) { return section_of<DataConfig>("data", yaml); }
std::string resolved(const DataConfig& data) {
  return to_yaml(write_config(OneSection<DataConfig>{"data", data}));
}

DataConfig config_of(std::vector<DataSource> train, TokenizerType type = TokenizerType::kByte) {
  DataConfig config;
  config.train = std::move(train);
  config.tokenizer.type = type;
  config.seq_length = 4;
  return config;
}

std::string text_of(const Corpus& corpus, const TokenStream& stream) {
  std::vector<int32_t> ids(stream.size());
  stream.read(0, ids);
  return corpus.tokenizer->decode(ids);
}

Corpus open(const DataConfig& config) { return open_corpus(real_files(), config); }

TEST(DataConfig, ReadsEverySpellingOfSourcesAndWritesItBack) {
  EXPECT_THAT(parse("data: {train: a.txt}").train, ElementsAre(DataSource{"a.txt", {}}));
  EXPECT_THAT(parse("data: {train: [a, b]}").train,
              ElementsAre(DataSource{"a", {}}, DataSource{"b", {}}));
  EXPECT_THAT(parse("data: {train: [{path: a, weight: 1}, {path: b, weight: 0.5}]}").train,
              ElementsAre(DataSource{"a", 1}, DataSource{"b", 0.5}));
  for (const char* yaml :
       {"data: {train: a.txt, valid: null, tokenizer: {type: char}}",
        "data: {train: [a, b], valid: c}",
        "data: {train: [{path: a, weight: 1}], shuffle: false, split: 1}",
        "data: {train: x, valid: [{path: y}], extensions: [h, ''], seq_length: 7}"}) {
    const std::string once = resolved(parse(yaml));
    EXPECT_EQ(resolved(parse(once)), once) << yaml;
  }
  EXPECT_EQ(parse("data: {train: a, tokenizer: {type: char}}").tokenizer.type,
            TokenizerType::kChar);
}

TEST(DataConfig, MistakesAreNamedWithLineAndKey) {
  const auto error = [](const std::string& yaml) {
    return message_of<ConfigError>(
        [&] { check_data_config(parse(yaml), parse_yaml(yaml, "test.yaml")); });
  };
  EXPECT_THAT(error("data:\n  train: {}"), HasSubstr("test.yaml:2: data.train: expected a path"));
  EXPECT_THAT(error("data:\n  train: []"), HasSubstr("data.train: expected a path"));
  EXPECT_THAT(error("data: {seq_length: 3}"), HasSubstr("data.train: required"));
  EXPECT_THAT(error("data: {train: [a, {path: b, weight: 1}]}"),
              HasSubstr("data.train[1]: either every source has a weight or none"));
  EXPECT_THAT(error("data: {train: [{path: b, weight: 0}]}"), HasSubstr("data.train[0].weight"));
  EXPECT_THAT(error("data: {train: [{pth: b}]}"), HasSubstr("did you mean data.train[0].path?"));
  EXPECT_THAT(error("data: {train: a, tokenizer: {type: bte}}"), HasSubstr("byte"));
  EXPECT_THAT(error("data: {train: a, tokenizer: {type: hf}}"), HasSubstr("hf needs data.token"));
  EXPECT_THAT(error("data: {train: a, tokenizer: {path: x}}"), HasSubstr("did you mean type hf?"));
  EXPECT_THAT(error("data: {train: a, split: 0}"), HasSubstr("data.split"));
  EXPECT_THAT(error("data: {train: a, split: 1.5}"), HasSubstr("data.split"));
  EXPECT_THAT(error("data: {train: a, seq_length: 0}"), HasSubstr("data.seq_length"));
  EXPECT_THAT(error("data:\n  train: a\n  valid: [{path: b, weight: 2}]"),
              HasSubstr("test.yaml:3: data.valid: weights do not apply"));
}

TEST(Corpus, OneFileIsSplitByPositionInCharacters) {
  const Scratch scratch;
  const std::string file = scratch.write("a.txt", "abcdefghéüöä€xyz0123");  // 20 characters
  Corpus corpus = open(config_of({{file, {}}}, TokenizerType::kChar));
  EXPECT_EQ(corpus.train_tokens(), 18);
  EXPECT_EQ(text_of(corpus, *corpus.train[0].tokens), "abcdefghéüöä€xyz01");
  EXPECT_EQ(text_of(corpus, *corpus.valid.at(0).tokens), "23");
  EXPECT_EQ(corpus.tokenizer->vocab_size(), 20);
  DataConfig config = config_of({{file, {}}});
  config.split = 1;
  EXPECT_TRUE(open(config).valid.empty());
  EXPECT_EQ(open(config).train_tokens(), 26);
}

TEST(Corpus, ManyFilesAreSplitByWholeFilesWhereverTheyLie) {
  const auto fill = [](const Scratch& scratch) {
    for (int i = 0; i < 200; ++i) {
      scratch.write(fmt::format("d{}/{}.txt", i % 7, i), std::string(50 + i % 11, 'a' + i % 26));
    }
  };
  const Scratch one;
  const Scratch two;
  fill(one);
  fill(two);
  const auto files = find_source_files(real_files(), one.root());
  const std::vector<bool> held_out = held_out_files(files, 0.9);
  EXPECT_EQ(held_out, held_out_files(find_source_files(real_files(), two.root()), 0.9));
  std::string train;
  std::string valid;
  for (size_t i = 0; i < files.size(); ++i) {
    (held_out[i] ? valid : train) += real_files().read(files[i].path);
  }
  const Corpus corpus = open(config_of({{one.root(), {}}}));
  EXPECT_EQ(text_of(corpus, *corpus.train[0].tokens), train);
  EXPECT_EQ(text_of(corpus, *corpus.valid.at(0).tokens), valid);
  EXPECT_NEAR(static_cast<double>(valid.size()), 0.1 * (train.size() + valid.size()), 70);
  EXPECT_EQ(corpus.identity, open(config_of({{two.root(), {}}})).identity);
}

TEST(Corpus, HoldingOutTakesAtLeastOneFileAndLeavesOne) {
  const std::vector<SourceFile> files{{"x", "x", 1000}, {"y", "y", 10}, {"z", "z", 800}};
  EXPECT_THAT(held_out_files(files, 0.999), ElementsAre(false, true, false));
  for (const double split : {0.001, 0.3, 0.5, 0.9}) {
    const auto held_out = held_out_files(files, split);
    const auto count = std::count(held_out.begin(), held_out.end(), true);
    EXPECT_TRUE(count >= 1 && count <= 2) << split;
  }
}

TEST(Corpus, WeightsMakeSourcesOfTheirOwn) {
  const Scratch scratch;
  const std::string a = scratch.write("a.txt", std::string(100, 'a'));
  const std::string b = scratch.write("b.txt", std::string(20, 'b'));
  const Corpus plain = open(config_of({{a, {}}, {b, {}}}));
  ASSERT_EQ(plain.train.size(), 1U);
  const Corpus blend = open(config_of({{a, 1}, {b, 3}}));
  ASSERT_EQ(blend.train.size(), 2U);
  EXPECT_EQ(blend.train[1].weight, 3);
  EXPECT_EQ(text_of(blend, *blend.valid.at(0).tokens), std::string(10, 'a') + "bb");
  EXPECT_NE(plain.identity, blend.identity);
}

TEST(Corpus, AValidationSetOfItsOwnLeavesTheTrainingTextWhole) {
  const Scratch scratch;
  const std::string train = scratch.write("train.txt", "abcabcabc");
  const std::string valid = scratch.write("valid.txt", "cab");
  DataConfig config = config_of({{train, {}}}, TokenizerType::kChar);
  config.valid = {{"", {{valid, {}}}}};
  const Corpus corpus = open(config);
  EXPECT_EQ(corpus.train_tokens(), 9);
  EXPECT_EQ(text_of(corpus, *corpus.valid.at(0).tokens), "cab");
  scratch.write("valid.txt", "cabx");
  EXPECT_THAT(message_of<IoError>([&] { open(config); }),
              HasSubstr(valid + ": 'x' (U+0078) at byte 3"));
}

TEST(Corpus, ATokenizerOfACheckpointTakesThePlaceOfANewOne) {
  const Scratch scratch;
  const std::string file = scratch.write("a.txt", "bcbcbcbcbcbc");
  const DataConfig config = config_of({{file, {}}}, TokenizerType::kChar);
  const auto given = std::make_shared<CharTokenizer>(CharTokenizer::of_text("abcd"));
  const Corpus corpus = open_corpus(real_files(), config, given);
  EXPECT_EQ(corpus.tokenizer, given);
  std::vector<int32_t> ids(3);
  corpus.train[0].tokens->read(0, ids);
  EXPECT_THAT(ids, ElementsAre(1, 2, 1));
  EXPECT_THAT(message_of<Error>([&] {
                open_corpus(real_files(), config_of({{file, {}}}), given);
              }),
              HasSubstr("of type char, but data.tokenizer.type is byte"));
}

TEST(Corpus, MistakesInTheDataAreNamed) {
  const Scratch scratch;
  const std::string file = scratch.write("a.txt", "abcde");
  scratch.write("folder/b.txt", "xxxxx");
  EXPECT_THAT(message_of<Error>([&] {
                open(config_of({{file, {}}}));
              }),
              HasSubstr(file + ": 4 tokens to train on, but data.seq_length 4 needs at least 5"));
  EXPECT_THAT(message_of<IoError>([&] {
                open(config_of({{file, {}}, {scratch.root(), {}}}));
              }),
              HasSubstr(file + ": named twice by the data"));
  EXPECT_THAT(message_of<IoError>([&] {
                open(config_of({{scratch.path("a.tx"), {}}}));
              }),
              HasSubstr("did you mean " + file));
  EXPECT_THROW(open(config_of({})), ConfigError);
}

TEST(Corpus, FilesThatAreNoTextAreRefusedUnlessTheyAreWanted) {
  const Scratch scratch;
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  scratch.write("a/1.png", png + std::string(900, 'x'));
  scratch.write("a/2.png", png + std::string(900, 'y'));
  scratch.write("a/text.txt", std::string(200, 'z'));
  DataConfig config = config_of({{scratch.path("a"), {}}});
  config.split = 1;
  EXPECT_THAT(
      message_of<IoError>([&] { open(config); }),
      AllOf(HasSubstr("data.train: " + scratch.path("a/1.png") +
                      ": is no text: it holds zero bytes; 2 of the 3 files looked at are no"),
            HasSubstr("data.binary: true")));
  config.binary = true;
  EXPECT_EQ(open(config).train_tokens(), 2 * 916 + 200);

  DataConfig wide = config_of({{scratch.write("wide.txt", std::string("\xFF\xFEh\0i\0", 6)), {}}});
  EXPECT_THAT(message_of<IoError>([&] { open(wide); }),
              HasSubstr("wide.txt: is no text: it is UTF-16: expected UTF-8; "));
  config.binary = false;
  config.extensions = {"txt"};
  EXPECT_EQ(open(config).train_tokens(), 200);
  // Among much text a few of them are told, and taken.
  config.extensions = {};
  scratch.write("a/more.txt", std::string(5000, 'z'));
  std::string told;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view text) { told += std::string(text); });
  EXPECT_EQ(open(config).train_tokens(), 2 * 916 + 5200);
  set_log_sink(before);
  EXPECT_THAT(told, HasSubstr("1.png: is no text"));
}

TEST(Corpus, IdentityFollowsNamesSizesSplitAndVocabulary) {
  const Scratch scratch;
  const std::string file = scratch.write("a.txt", "abcdefghijklmnopqrst");
  const Hash128 before = open(config_of({{file, {}}})).identity;
  EXPECT_EQ(open(config_of({{file, {}}})).identity, before);
  DataConfig other = config_of({{file, {}}});
  other.split = 0.8;
  EXPECT_NE(open(other).identity, before);
  EXPECT_NE(open(config_of({{file, {}}}, TokenizerType::kChar)).identity, before);
  scratch.write("a.txt", "abcdefghijklmnopqrstu");
  EXPECT_NE(open(config_of({{file, {}}})).identity, before);
}

DataConfig with_tokenizer(std::vector<DataSource> train, TokenizerType type,
                          const std::string& path) {
  DataConfig config = config_of(std::move(train), type);
  config.tokenizer.path = path;
  config.split = 1;
  return config;
}

std::vector<int32_t> ids_of(const TokenStream& stream) {
  std::vector<int32_t> ids(stream.size());
  stream.read(0, ids);
  return ids;
}

TEST(Corpus, TextJsonLinesAndIdsMixUnderOneTokenizer) {
  const Scratch scratch;
  const std::string tokenizer =
      scratch.write("tokenizer.json", small_bpe({{"t", "h"}, {"th", "e"}}).dump());
  scratch.write("data/a.txt", "the end");
  scratch.write("data/b.jsonl", "{\"text\":\"the\"}\n{\"text\":\"é\"}\n");
  TokenWriter nano(real_files(), scratch.path("data/c.bin"), TokenFormat::kNanogpt, 259);
  nano.add(std::vector<int32_t>{1, 2, 258});
  nano.finish();
  TokenWriter megatron(real_files(), scratch.path("data/d.bin"), TokenFormat::kMegatron, 259);
  for (const int32_t id : {7, 8}) {
    megatron.add(std::vector<int32_t>{id});
    megatron.end_document();
  }
  megatron.finish();
  const DataConfig config =
      with_tokenizer({{scratch.path("data"), {}}}, TokenizerType::kBpe, tokenizer);
  EXPECT_EQ(known_vocab_size(real_files(), config), 259);
  const Corpus corpus = open(config);
  EXPECT_THAT(ids_of(*corpus.train[0].tokens),
              ElementsAre(257, 32, 101, 110, 100, 257, 258, 195, 169, 1, 2, 258, 7, 8));
  EXPECT_THAT(corpus.train[0].tokens->document_ends(), ElementsAre(5, 7, 9, 12, 13, 14));

  // Megatron's pair by the name without its endings.
  DataConfig pair = with_tokenizer({{scratch.path("data/d"), {}}}, TokenizerType::kHf, tokenizer);
  pair.seq_length = 1;
  EXPECT_THAT(ids_of(*open(pair).train[0].tokens), ElementsAre(7, 8));
  EXPECT_NE(open(pair).identity, corpus.identity);
  // By its index alone there is nothing to read; beside the ids the index is passed over.
  pair.train = {{scratch.path("data/d.idx"), {}}};
  EXPECT_THAT(message_of<IoError>([&] { open(pair); }),
              HasSubstr("d.idx: holds no ids, only where they lie"));
  pair.train = {{scratch.path("data/d.bin"), {}}, {scratch.path("data/d.idx"), {}}};
  EXPECT_THAT(ids_of(*open(pair).train[0].tokens), ElementsAre(7, 8));

  EXPECT_THAT(message_of<IoError>(
                  [&] { open(with_tokenizer(config.train, TokenizerType::kUnigram, tokenizer)); }),
              HasSubstr("holds a tokenizer of type bpe, but data.tokenizer.type is unigram"));
  EXPECT_THAT(message_of<Error>([&] {
                open(config_of({{scratch.path("data/c.bin"), {}}}, TokenizerType::kChar));
              }),
              HasSubstr("the data hold ids alone"));
  DataConfig bytes = config_of({{scratch.path("data/c.bin"), {}}});
  bytes.split = 1;
  bytes.seq_length = 2;
  EXPECT_THAT(message_of<IoError>([&] { ids_of(*open(bytes).train[0].tokens); }),
              HasSubstr("c.bin: offset 4: id 258 is not below"));
}

TEST(Corpus, CharactersOfJsonLinesCountAndAFileOfThemIsTaken) {
  const Scratch scratch;
  scratch.write("data/a.txt", "ababa");
  scratch.write("data/b.jsonl", "{\"text\":\"zé\"}\n");
  DataConfig config = config_of({{scratch.path("data"), {}}}, TokenizerType::kChar);
  config.split = 1;
  const Corpus corpus = open(config);
  EXPECT_EQ(corpus.tokenizer->vocab_size(), 4);
  EXPECT_THAT(ids_of(*corpus.train[0].tokens), ElementsAre(0, 1, 0, 1, 0, 2, 3));
  const std::string kept = scratch.write("kept.json", corpus.tokenizer->to_json());
  EXPECT_THAT(
      ids_of(*open(with_tokenizer({{scratch.path("data/a.txt"), {}}}, TokenizerType::kChar, kept))
                  .train[0]
                  .tokens),
      ElementsAre(0, 1, 0, 1, 0));
}

TEST(Corpus, WithoutPackingEachSampleLiesInOneDocument) {
  const Scratch scratch;
  DataConfig config = config_of(
      {{scratch.write(
            "a.jsonl",
            "{\"text\":\"abcdefgh\"}\n{\"text\":\"x\"}\n{\"text\":\"\"}\n{\"text\":\"123456\"}\n"),
        {}}});
  config.split = 1;
  config.packing = false;
  const Corpus corpus = open(config);
  const TrainingWindows windows(corpus.train,
                                {.seq_length = 4, .shuffle = false, .packing = false});
  EXPECT_EQ(windows.windows_per_epoch(0), 4);
  std::vector<std::string> samples;
  for (int64_t i = 0; i < 5; ++i) {
    std::vector<int32_t> tokens(4);
    std::vector<int32_t> targets(4);
    windows.read(i, tokens, targets);
    std::string text;
    for (size_t j = 0; j < 4; ++j) {
      text.push_back(targets[j] == kIgnoreTarget ? '-' : static_cast<char>(targets[j]));
      EXPECT_TRUE(targets[j] != kIgnoreTarget || j == 0 || targets[j - 1] == kIgnoreTarget ||
                  tokens[j] == 0 || tokens[j] == targets[j - 1]);
    }
    samples.push_back(text);
  }
  EXPECT_THAT(samples, ElementsAre("bcde", "fgh-", "2345", "6---", "bcde"));
  const EvaluationWindows evaluation(corpus.train[0].tokens, 4, -1, /*packing=*/false);
  EXPECT_EQ(evaluation.samples(), 4);
  EXPECT_EQ(evaluation.scored_tokens(), 7 + 0 + 5);
}

TEST(Corpus, TinyShakespeareIsTheUsualSplit) {
  const std::string file = real_data("tinyshakespeare.txt");
  if (file.empty()) {
    GTEST_SKIP() << "tinyshakespeare.txt is not in MSTRAIN_TEST_DATA";
  }
  DataConfig config = config_of({{file, {}}}, TokenizerType::kChar);
  config.seq_length = 64;
  const Corpus corpus = open(config);
  EXPECT_EQ(corpus.tokenizer->vocab_size(), 65);
  EXPECT_EQ(corpus.train_tokens(), 1003854);
  EXPECT_EQ(corpus.valid.at(0).tokens->size(), 111540);
  const std::string whole = real_files().read(file);
  EXPECT_EQ(text_of(corpus, *corpus.valid.at(0).tokens), whole.substr(1003854));
  EXPECT_THAT(corpus.tokenizer->encode("\n !z"), ElementsAre(0, 1, 2, 64));
}

TEST(Corpus, TheStandardLibrarysHeadersAreATrainingText) {
  const std::string folder = "/usr/include/c++";
  if (!real_files().is_directory(folder)) {
    GTEST_SKIP() << folder << " is not there";
  }
  const Corpus corpus = open(config_of({{folder, {}}}));
  const auto total = static_cast<double>(corpus.train_tokens() + corpus.valid.at(0).tokens->size());
  EXPECT_NEAR(static_cast<double>(corpus.valid.at(0).tokens->size()) / total, 0.1, 0.02);
}

}  // namespace
}  // namespace mstrain
