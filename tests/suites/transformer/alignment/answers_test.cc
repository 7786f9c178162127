// What lines of JSON become: samples with their masks, rows with the borders of their texts, and errors that name the line.
#include "suites/transformer/alignment/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/data/windows.h"
#include "core/tensor/host.h"
#include "suites/transformer/alignment/answer_rows.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class AnswersTest : public testing::Test {
 protected:
  std::string write(const std::string& lines) {
    write_file_atomic(real_files(), folder_ / "lines.jsonl", lines);
    return folder_ / "lines.jsonl";
  }
  AnswerCorpus open(const std::string& lines) {
    data_.train = {{write(lines), {}}};
    return open_answers(real_files(), data_, objective_);
  }

  TemporaryFolder folder_;
  DataConfig data_ = [] {
    DataConfig data;
    data.tokenizer.type = TokenizerType::kChar;
    data.seq_length = 6;
    data.split = 1;
    return data;
  }();
  ObjectiveConfig objective_;
};

constexpr int32_t kNo = kIgnoreTarget;

TEST_F(AnswersTest, TargetsAreTheAnswerAndItsEndAlone) {
  const AnswerCorpus corpus = open(R"({"prompt": "ab", "response": "cd"})");
  EXPECT_EQ(corpus.end, 0);  // a newline; a to d are 1 to 4
  const AnswerRows rows(corpus.train, RowKind::kSingle, 6);
  std::vector<std::vector<int32_t>> tensors(2, std::vector<int32_t>(6));
  rows.write(0, tensors, 0);
  EXPECT_THAT(tensors[0], ElementsAre(1, 2, 3, 4, 0, 0));
  EXPECT_THAT(tensors[1], ElementsAre(kNo, 3, 4, 0, kNo, kNo));
  rows.write(1, tensors, 0);  // after the last one
  EXPECT_THAT(tensors[1], ElementsAre(kNo, kNo, kNo, kNo, kNo, kNo));
}

TEST_F(AnswersTest, APromptBeginsAsTheTokenizersTemplateSays) {
  write_file_atomic(real_files(), folder_ / "tokenizer.json", beginning_words().dump());
  data_.tokenizer = {.type = TokenizerType::kHf, .path = folder_ / "tokenizer.json"};
  const AnswerCorpus corpus = open(R"({"prompt": "the", "response": "ab"})");
  const AnswerText& text = corpus.train.at(0).texts.at(0);
  EXPECT_EQ(text.answer, 2);
  EXPECT_EQ(corpus.tokenizer->decode(text.ids), "Btheab<|endoftext|>");
}

TEST_F(AnswersTest, AConversationWithoutAnAnswerIsCounted) {
  write_file_atomic(real_files(), folder_ / "tokenizer.json", words().dump());
  write_file_atomic(real_files(), folder_ / "chat_template.jinja",
                    "{% for m in messages %}{{ m.content }}{% endfor %}");
  data_.tokenizer = {.type = TokenizerType::kHf, .path = folder_.path()};
  const std::string asked = R"({"role": "user", "content": "the"})";
  const AnswerCorpus corpus =
      open(fmt::format("{{\"messages\": [{}]}}\n"
                       "{{\"messages\": [{}, {{\"role\": \"assistant\", \"content\": \"ab\"}}]}}\n",
                       asked, asked));
  EXPECT_EQ(corpus.train.size(), 1);
  EXPECT_EQ(corpus.counts.empty, 1);
}

TEST_F(AnswersTest, WhyNothingIsLeftIsSaid) {
  const auto said = [&](const std::string& lines) {
    return message_of<IoError>([&] { open(lines); });
  };
  EXPECT_THAT(said("{\"prompt\": \"a\", \"response\": \"\"}\n"
                   "{\"prompt\": \"aaaaaaa\", \"response\": \"b\"}\n"),
              HasSubstr("of 2 lines, 1 have no answer, and 1 are longer than data.seq_length"));
  data_.split = 0.9;
  EXPECT_THAT(said(R"({"prompt": "a", "response": "b"})"),
              AllOf(HasSubstr("there is no line"), HasSubstr("data.split")));
  data_.split = 1;
  objective_.type = ObjectiveType::kGrpo;
  objective_.grpo.answer_tokens = 2;
  EXPECT_THAT(said(R"({"prompt": "", "answer": "b"})"),
              AllOf(HasSubstr("of 1 line, 1 have no prompt or no answer"),
                    HasSubstr("with the 2 of objective.grpo.answer_tokens")));
}

TEST_F(AnswersTest, PackedTextsHaveSegmentsAndPositionsOfTheirOwn) {
  const AnswerCorpus corpus = open(
      "{\"prompt\": \"a\", \"response\": \"b\"}\n"
      "{\"prompt\": \"ab\", \"response\": \"a\"}\n"
      "{\"prompt\": \"b\", \"response\": \"bb\"}\n");
  const AnswerRows rows(corpus.train, RowKind::kPacked, 6);
  ASSERT_EQ(rows.count(), 2);
  std::vector<std::vector<int32_t>> tensors(4, std::vector<int32_t>(12));
  rows.write(0, tensors, 0);
  rows.write(1, tensors, 1);
  EXPECT_THAT(tensors[0], ElementsAre(1, 2, 1, 2, 1, 0, 2, 2, 2, 0, 0, 0));
  EXPECT_THAT(tensors[1], ElementsAre(2, 0, kNo, 1, 0, kNo, 2, 2, 0, kNo, kNo, kNo));
  EXPECT_THAT(tensors[2], ElementsAre(1, 1, 2, 2, 2, 0, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(tensors[3], ElementsAre(0, 1, 0, 1, 2, 0, 0, 1, 2, 0, 0, 0));
}

TEST_F(AnswersTest, PairsHaveBothAnswersBehindThePrompt) {
  objective_.type = ObjectiveType::kDpo;
  const AnswerCorpus corpus = open(R"({"prompt": "a", "chosen": "b", "rejected": "ab"})");
  const AnswerRows rows(corpus.train, RowKind::kPairs, 4);
  std::vector<std::vector<int32_t>> tensors(4, std::vector<int32_t>(4));
  rows.write(0, tensors, 0);
  EXPECT_THAT(tensors[0], ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(tensors[1], ElementsAre(2, 0, kNo, kNo));
  EXPECT_THAT(tensors[2], ElementsAre(1, 1, 2, 0));
  EXPECT_THAT(tensors[3], ElementsAre(1, 2, 0, kNo));
}

TEST_F(AnswersTest, EmptyAndLongAnswersAreCounted) {
  const std::string lines =
      "{\"prompt\": \"ab\", \"response\": \"\"}\n"
      "{\"prompt\": \"ab\", \"response\": \"abababab\"}\n"
      "{\"prompt\": \"abababab\", \"response\": \"b\"}\n"
      "{\"prompt\": \"ab\", \"response\": \"b\"}\n";
  const AnswerCorpus cut = open(lines);
  EXPECT_EQ(cut.train.size(), 2);
  EXPECT_EQ(cut.train[0].texts[0].ids.size(), 7);
  EXPECT_EQ(cut.counts.empty, 1);
  EXPECT_EQ(cut.counts.cut, 1);
  EXPECT_EQ(cut.counts.overlong, 1);
  objective_.overlong = Overlong::kSkip;
  const AnswerCorpus skipped = open(lines);
  EXPECT_EQ(skipped.train.size(), 1);
  EXPECT_EQ(skipped.counts.cut, 0);
  EXPECT_EQ(skipped.counts.overlong, 2);
}

TEST_F(AnswersTest, AMalformedLineIsNamed) {
  const std::string good = "{\"prompt\": \"a\", \"response\": \"b\"}\n";
  const auto error = [&](const std::string& line) {
    return message_of<IoError>([&] { open(good + line + "\n" + good); });
  };
  EXPECT_THAT(error("{\"prompt\": \"a\""), HasSubstr("lines.jsonl:2"));
  EXPECT_THAT(error("{\"prompt\": \"a\"}"),
              AllOf(HasSubstr("lines.jsonl:2: expected a JSON object with `response`"),
                    HasSubstr("objective.malformed")));
  EXPECT_THAT(
      error("{\"mesages\": []}"),
      HasSubstr(
          "lines.jsonl:2: expected `messages`, or `prompt` and `response`; `mesages` is none: "
          "did you mean `messages`?"));
  EXPECT_THAT(error("{\"prompt\": \"a\", \"respons\": \"a\"}"),
              HasSubstr("did you mean `response`?"));
  EXPECT_THAT(error("{\"prompt\": 1, \"response\": \"a\"}"),
              HasSubstr("lines.jsonl:2: `prompt` is no string"));
  EXPECT_THAT(error("{\"messages\": []}"), HasSubstr("lines.jsonl:2: `messages` is no list"));
  EXPECT_THAT(error("[1]"), HasSubstr("lines.jsonl:2"));
  EXPECT_THAT(error("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"),
              HasSubstr("lines.jsonl:2: conversations need a tokenizer with a chat template"));
  std::string said;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view text) { said += std::string(text) + "\n"; });
  error(
      "{\"messages\": [{\"role\": \"usr\", \"content\": \"a\"}, {\"role\": \"tool\", \"content\": "
      "\"b\"}]}");
  set_log_sink(before);
  EXPECT_THAT(said, testing::EndsWith("lines.jsonl:2: role usr; did you mean user?\n"));
}

TEST_F(AnswersTest, SoManyMalformedLinesAreSkippedAsAllowed) {
  const std::string good = "{\"prompt\": \"a\", \"response\": \"b\"}\n";
  objective_.malformed = 2;
  const AnswerCorpus corpus = open(good + "x\n{}\n" + good);
  EXPECT_EQ(corpus.train.size(), 2);
  EXPECT_EQ(corpus.counts.malformed, 2);
  EXPECT_THAT(message_of<IoError>([&] { open("x\n{}\n" + good + "[]\n"); }),
              AllOf(HasSubstr("lines.jsonl:4"), HasSubstr("2 such lines were skipped")));
}

// Whatever the bytes of a file are, it is read or refused.
TEST_F(AnswersTest, NoDamageGoesUnnoticed) {
  const std::string good = "{\"prompt\": \"ab\", \"response\": \"ba\"}\n";
  for (size_t at = 0; at + 1 < good.size(); ++at) {
    for (const char byte : {'\0', '"', '{', '\xff', 'q'}) {
      std::string bad = good;
      bad[at] = byte;
      try {
        EXPECT_EQ(open(bad).train.size(), 1) << bad;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("lines.jsonl:1")) << bad;
      }
    }
  }
}

TEST(AnswerText, APromptIsWhatWasSaidWhateverItBeginsWith) {
  const std::vector<int32_t> before{1, 7};
  EXPECT_THAT((AnswerText{{1, 7, 3, 4, 5}, 4}).prompt(before), testing::ElementsAre(3, 4));
  EXPECT_THAT((AnswerText{{8, 7, 3, 4, 5}, 4}).prompt(before), testing::ElementsAre(8, 7, 3, 4));
  EXPECT_THAT((AnswerText{{1, 7, 3}, 1}).prompt(before), testing::ElementsAre(1));
  EXPECT_THAT((AnswerText{{1, 7, 3}, 2}).prompt({}), testing::ElementsAre(1, 7));
}

TEST_F(AnswersTest, TheEndIsOneToken) {
  objective_.end = std::string("ab");
  EXPECT_THAT(message_of<ConfigError>([&] { open(R"({"prompt": "a", "response": "b"})"); }),
              HasSubstr("objective.end"));
  objective_.end = std::string("#");
  EXPECT_EQ(open(R"({"prompt": "a", "response": "b"})").end, 0);
}

TEST_F(AnswersTest, APassShowsEveryRowOnce) {
  std::string lines;
  for (const char* answer : {"a", "b", "c", "d", "e"}) {
    lines += std::string("{\"prompt\": \"a\", \"response\": \"") + answer + "\"}\n";
  }
  const AnswerCorpus corpus = open(lines);
  const auto rows = std::make_shared<const AnswerRows>(corpus.train, RowKind::kSingle, 6);
  const auto stream = training_rows(rows, /*shuffle=*/true, 3, 5, 0);
  const auto answers = [](const Tensors& batch) {
    std::vector<int32_t> out;
    for (const int32_t target : to_vector<int32_t>(batch[1])) {
      if (target > 0) {
        out.push_back(target);
      }
    }
    return out;
  };
  const std::vector<int32_t> first = answers(stream->next());
  EXPECT_EQ(stream->samples(), 5);
  const std::vector<int32_t> second = answers(stream->next());
  EXPECT_THAT(first, testing::UnorderedElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(second, testing::UnorderedElementsAre(1, 2, 3, 4, 5));
  EXPECT_NE(first, second);
  EXPECT_EQ(answers(training_rows(rows, true, 3, 5, 5)->next()), second);
}

}  // namespace
}  // namespace mstrain
