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

// ChatML with tools and calls, whose turns end with <|endoftext|> and a newline.
constexpr const char* kForm =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}:"
    "{% if m.content is string %}{{ m.content }}{% elif m.content %}{{ m.content[0].text }}"
    "{% endif %}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}"
    "{{ '<|endoftext|>\n' }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

class ConversationsTest : public AnswersTest {
 protected:
  ConversationsTest() {
    write_file_atomic(real_files(), folder_ / "tokenizer.json", words().dump());
    write_file_atomic(real_files(), folder_ / "chat_template.jinja", kForm);
    data_.tokenizer = {.type = TokenizerType::kHf, .path = folder_.path()};
    data_.seq_length = 200;
  }
  // The prompt and what is to be written, of answer `i` of a sample.
  static std::vector<std::string> said(const AnswerCorpus& corpus, size_t sample, size_t i = 0) {
    const AnswerText& text = corpus.train.at(sample).texts.at(i);
    const auto given = static_cast<size_t>(text.answer);
    return {corpus.tokenizer->decode(std::span(text.ids).first(given)),
            corpus.tokenizer->decode(std::span(text.ids).subspan(given))};
  }
};

TEST_F(ConversationsTest, ShowTheTemplateEveryKey) {
  const std::string call = R"("tool_calls": [{"z": 1, "a": {"x": null}}]})";
  const AnswerCorpus corpus = open(
      R"({"tools": [{"name": "f", "b": 2}], "messages": [{"role": "user", "content": [)"
      R"({"type": "text", "text": "ab"}]}, {"role": "assistant", )" +
      call + R"(, {"role": "tool", "content": "c"}, {"role": "assistant", "content": "the"}]})" +
      "\n" + R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", )" +
      R"("content": null, )" + call + "]}\n");
  const std::string asked = "[{\"name\": \"f\", \"b\": 2}]user:ab<|endoftext|>\nassistant:";
  const std::string called = "[{\"z\": 1, \"a\": {\"x\": null}}]<|endoftext|>";
  ASSERT_EQ(corpus.train.size(), 3U);
  EXPECT_THAT(said(corpus, 0), ElementsAre(asked, called));
  EXPECT_THAT(said(corpus, 1), ElementsAre(asked + called + "\ntool:c<|endoftext|>\nassistant:",
                                           "the<|endoftext|>"));
  EXPECT_THAT(said(corpus, 2), ElementsAre("user:a<|endoftext|>\nassistant:", called));
}

TEST_F(ConversationsTest, ArePromptsOfWhateverIsLearnt) {
  const std::string prompt = R"({"prompt": [{"role": "user", "content": "a"}], )";
  const std::string good = R"([{"role": "assistant", "content": "ab"}])";
  const std::string bad = R"([{"role": "assistant", "content": "zz"}])";
  const std::string asked = "user:a<|endoftext|>\nassistant:";
  objective_.type = ObjectiveType::kDpo;
  const AnswerCorpus pairs = open(prompt + "\"chosen\": " + good + ", \"rejected\": " + bad + "}");
  EXPECT_THAT(said(pairs, 0, 0), ElementsAre(asked, "ab<|endoftext|>"));
  EXPECT_THAT(said(pairs, 0, 1), ElementsAre(asked, "zz<|endoftext|>"));
  objective_.type = ObjectiveType::kKto;
  const AnswerCorpus judged = open(prompt + "\"completion\": " + good + ", \"label\": true}\n" +
                                   prompt + "\"response\": " + bad + ", \"label\": false}\n");
  EXPECT_THAT(said(judged, 0), ElementsAre(asked, "ab<|endoftext|>"));
  EXPECT_THAT(said(judged, 1), ElementsAre(asked, "zz<|endoftext|>"));
  objective_.type = ObjectiveType::kGrpo;
  const AnswerCorpus asks =
      open(prompt + "\"answer\": \"ab\"}\n" +
           R"({"messages": [{"role": "user", "content": "a"}], "answer": "zz"})");
  EXPECT_EQ(asks.end, asks.tokenizer->encode("<|endoftext|>")[0]);
  EXPECT_THAT(said(asks, 0), ElementsAre(asked, "ab<|endoftext|>"));
  EXPECT_THAT(said(asks, 1), ElementsAre(asked, "zz<|endoftext|>"));
}

TEST_F(ConversationsTest, MistakesAreNamed) {
  const auto error = [&](const std::string& line) {
    return message_of<IoError>([&] { open(line); });
  };
  const std::string user = R"([{"role": "user", "content": "a"}])";
  EXPECT_THAT(error("{\"messages\": [{\"content\": \"a\"}]}"),
              HasSubstr("lines.jsonl:1: `messages`: a message is no object with a string `role`"));
  EXPECT_THAT(error("{\"messages\": " + user + ", \"tools\": 3}"),
              HasSubstr("lines.jsonl:1: `tools` is no list"));
  EXPECT_THAT(error(R"({"prompt": "a", "response": "b", "tools": []})"),
              HasSubstr("`tools` are for conversations"));
  objective_.type = ObjectiveType::kDpo;
  EXPECT_THAT(error("{\"prompt\": " + user + R"(, "chosen": "b", "rejected": "a"})"),
              HasSubstr("`chosen` is no list of"));
  EXPECT_THAT(error("{\"prompt\": \"a\", \"chosen\": " + user + ", \"rejected\": []}"),
              HasSubstr("`chosen` is a list of messages, but `prompt` is none"));
  EXPECT_THAT(error("{\"prompt\": " + user + ", \"chosen\": " + user + "}"),
              HasSubstr("`chosen` has a message of role \"user\""));
  objective_.type = ObjectiveType::kGrpo;
  EXPECT_THAT(error(R"({"prompt": [{"role": "assistant", "content": "a"}], "answer": "a"})"),
              HasSubstr("ends with what it says itself"));
  EXPECT_THAT(error("{\"prompt\": " + user + ", \"answer\": \"a\"}\n" +
                    R"({"prompt": "a", "answer": "a"})"),
              HasSubstr("lines.jsonl:2: some prompts are lists of messages"));
}

TEST_F(AnswersTest, PromptsAloneAreEnoughWhereNoRewardReadsAnswers) {
  objective_.type = ObjectiveType::kGrpo;
  objective_.grpo.answer_tokens = 2;
  const std::string lines = "{\"prompt\": \"a\"}\n{\"prompt\": \"ab\", \"answer\": \"b\"}\n";
  EXPECT_THAT(message_of<IoError>([&] { open(lines); }),
              HasSubstr("lines.jsonl:1: expected a JSON object with `answer`"));
  objective_.grpo.rewards = {{.type = RewardType::kLength, .at_most = 1}};
  const AnswerCorpus corpus = open(lines);
  ASSERT_EQ(corpus.train.size(), 2U);
  EXPECT_FALSE(corpus.train[0].texts[0].has_answer());
  EXPECT_TRUE(corpus.train[0].texts[0].wanted().empty());
  EXPECT_EQ(corpus.tokenizer->decode(corpus.train[1].texts[0].wanted()), "b");
}

TEST_F(AnswersTest, PairsOfTheSameAnswerAreCounted) {
  objective_.type = ObjectiveType::kDpo;
  const AnswerCorpus corpus = open(
      "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"ab\"}\n"
      "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"b\"}\n");
  EXPECT_EQ(corpus.train.size(), 2U);
  EXPECT_EQ(corpus.counts.alike, 1);
  // As far as they are not cut.
  data_.seq_length = 3;
  EXPECT_EQ(
      open("{\"prompt\": \"a\", \"chosen\": \"bbba\", \"rejected\": \"bbbb\"}\n").counts.alike, 1);
}

TEST_F(AnswersTest, KeysThatNobodyReadsAreToldOnceAFile) {
  testing::internal::CaptureStderr();
  const std::string line =
      "{\"prompt\": \"a\", \"response\": \"b\", \"respones\": \"z\", \"w\": 3}\n";
  open(line + line);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, AllOf(HasSubstr("lines.jsonl:1: `respones` is not read"),
                          HasSubstr("did you mean response?"), HasSubstr("`w` is not read"),
                          testing::Not(HasSubstr("lines.jsonl:2"))));
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

TEST_F(AnswersTest, AnAnswerThatIsNeverPaidIsMalformed) {
  data_.split = 1;
  objective_.type = ObjectiveType::kGrpo;
  objective_.grpo.answer_tokens = 2;
  objective_.grpo.rewards = {{.type = RewardType::kNumber}};
  const std::string line = R"({"prompt": "a", "answer": "b"})";
  EXPECT_THAT(message_of<IoError>([&] { open(line); }),
              HasSubstr("lines.jsonl:1: there is no number in the answer \"b\""));
  objective_.grpo.rewards.push_back({.type = RewardType::kExact});
  EXPECT_EQ(open(line).train.size(), 1);
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
  EXPECT_THAT(error("{\"prompt\": \"a\", \"respons\": \"b\"}"),
              HasSubstr("with `response`; `respons` is none: did you mean `response`?"));
  EXPECT_THAT(error("{\"prompt\": \"a\", \"response\": \"b\", \"completion\": \"b\"}"),
              HasSubstr("has `response` and `completion`"));
  EXPECT_THAT(message_of<IoError>([&] { open("\x1f\x8b\x08" + good); }),
              HasSubstr("lines.jsonl: is compressed; gzip is not read"));
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
  const auto stream = training_rows(rows, /*shuffle=*/true, nullptr, 3, 5, 0);
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
  EXPECT_EQ(answers(training_rows(rows, true, nullptr, 3, 5, 5)->next()), second);
}

}  // namespace
}  // namespace mstrain
