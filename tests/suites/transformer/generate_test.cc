#include "suites/transformer/text/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/simple_tokenizers.h"
#include "tests/core/data/small_tokenizers.h"
#include "tests/core/data/small_unigram.h"
#include "tests/suites/transformer/small_decoders.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

TEST(Generation, NothingIsCompiledAgainAsTheTextGrows) {
  const auto model = small_gpt(256);
  const Params params = init_params(model->specs(), 7);
  Decoder decoder(model, Execution::kGraph);
  const std::vector<int32_t> prompt = random_ids(5, 1);
  const WriteOptions options{120, {.greedy = true}, {}};
  continue_tokens(decoder, params, std::span(&prompt, 1), options, kVocab);
  EXPECT_EQ(decoder.compile_count(), 2);  // a prompt of up to 64 tokens, a token with room for 128
  for (size_t length : {1U, 8U, 60U}) {
    const std::vector<int32_t> other = random_ids(length, length);
    continue_tokens(decoder, params, std::span(&other, 1), {65, {.seed = 3}, {}}, kVocab);
  }
  EXPECT_EQ(decoder.compile_count(), 2);
}

TEST(Generation, ForgetsTheOlderHalfOfAFullWindow) {
  const auto model = small_gpt(16);
  const Params params = init_params(model->specs(), 9);
  Decoder decoder(model, Execution::kGraph);
  const std::vector<int32_t> prompt = random_ids(11, 4);
  std::vector<int32_t> text = prompt;
  size_t first = 0;
  for (int i = 0; i < 40; ++i) {
    if (text.size() - first > 16) {
      first = text.size() - 8;
    }
    text.push_back(likeliest(uncached(*model, params, std::span(text).subspan(first))));
  }
  const auto out =
      continue_tokens(decoder, params, std::span(&prompt, 1), {40, {.greedy = true}, {}}, kVocab);
  EXPECT_EQ(out.at(0), std::vector<int32_t>(text.begin() + 11, text.end()));
  EXPECT_EQ(decoder.compile_count(), 2);
}

TEST(Generation, ATextDoesNotDependOnThoseBesideIt) {
  const auto model = small_gpt(64);
  const Params params = init_params(model->specs(), 9);
  Decoder decoder(model, Execution::kGraph);
  const std::vector<std::vector<int32_t>> prompts{random_ids(9, 1), random_ids(30, 2),
                                                  random_ids(2, 3)};
  for (const SamplingOptions& sampling :
       {SamplingOptions{.greedy = true}, SamplingOptions{.temperature = 0.7, .seed = 5}}) {
    const WriteOptions options{50, sampling, {}};
    const auto together = continue_tokens(decoder, params, prompts, options, kVocab);
    EXPECT_EQ(together.at(0),
              continue_tokens(decoder, params, std::span(prompts).first(1), options, kVocab).at(0));
    EXPECT_EQ(together, continue_tokens(decoder, params, prompts, options, kVocab));
    if (sampling.greedy) {
      for (size_t i = 1; i < prompts.size(); ++i) {
        EXPECT_EQ(together.at(i), continue_tokens(decoder, params, std::span(prompts).subspan(i, 1),
                                                  options, kVocab)
                                      .at(0));
      }
    }
  }
}

// Keys that turn by the length of a text are not those that reading it again gives.
TEST(Generation, ATextThatOutgrowsItsPositionsLeavesThoseBesideItAsTheyAre) {
  const auto model = small_llama(10, {.type = RopeType::kDynamic, .factor = 3}, 0);
  const Params params = init_params(model->specs(), 9);
  Decoder decoder(model, Execution::kGraph);
  std::vector<std::vector<int32_t>> prompts;
  for (const size_t length : {4, 29, 11}) {
    prompts.push_back(random_ids(length, length));
  }
  WriteOptions options{.tokens = 45, .sampling = {.greedy = true}};
  const auto together = continue_tokens(decoder, params, prompts, options, kVocab);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto alone =
        continue_tokens(decoder, params, std::span(prompts).subspan(i, 1), options, kVocab);
    EXPECT_EQ(together.at(i), alone.at(0)) << i;
  }
  options.at_once = 2;
  EXPECT_EQ(continue_tokens(decoder, params, prompts, options, kVocab), together);
}

TEST(Generation, StopsBeforeAnyOfTheStopTokens) {
  const auto model = small_gpt(64);
  const Params params = init_params(model->specs(), 9);
  Decoder decoder(model, Execution::kGraph);
  const std::vector<std::vector<int32_t>> prompts{random_ids(4, 1), random_ids(6, 2)};
  const SamplingOptions sampling{.temperature = 1.5, .seed = 2};
  const auto whole = continue_tokens(decoder, params, prompts, {30, sampling, {}}, kVocab);
  const int32_t stop = whole[0][12];
  std::vector<std::vector<int32_t>> seen(2);
  const auto out = continue_tokens(decoder, params, prompts, {30, sampling, {299, stop}}, kVocab,
                                   [&](size_t row, int32_t id) { seen[row].push_back(id); });
  EXPECT_EQ(out, seen);
  for (size_t row : {0U, 1U}) {
    size_t length = 0;
    while (length < whole[row].size() && whole[row][length] != stop && whole[row][length] != 299) {
      ++length;
    }
    EXPECT_EQ(out[row], std::vector<int32_t>(whole[row].begin(),
                                             whole[row].begin() + static_cast<ptrdiff_t>(length)));
  }
  EXPECT_LE(out[0].size(), 12U);
}

TEST(Generation, TellsHowManyTextsHadNoEnd) {
  const auto model = small_gpt(64);
  const Params params = init_params(model->specs(), 9);
  Generator generator(model, std::make_shared<ByteTokenizer>());
  const std::string prompts[] = {"abc", "d"};
  WriteOptions options{20, {.seed = 4}, {}};
  const auto whole = generator.generate(params, prompts, options);
  EXPECT_EQ(generator.cut(), 2);
  options.stop = {static_cast<uint8_t>(whole[0][12])};
  const auto texts = generator.generate(params, prompts, options);
  EXPECT_LE(texts[0].size(), 12U);
  EXPECT_EQ(generator.cut(), texts[1].size() == 20 ? 1 : 0);
}

TEST(Generation, TellsOfTextsThatOutgrewTheModelsPositions) {
  const auto model = small_gpt(16);
  const Params params = init_params(model->specs(), 9);
  Generator generator(model, std::make_shared<ByteTokenizer>());
  const auto outgrown = [&](size_t prompt, int64_t tokens) {
    const std::string prompts[] = {std::string(prompt, 'a'), "b"};
    generator.generate(params, prompts, {tokens, {.greedy = true}, {}});
    return generator.outgrown();
  };
  EXPECT_EQ(outgrown(3, 20), 23);
  EXPECT_EQ(outgrown(3, 15), 18);
  EXPECT_EQ(outgrown(3, 14), 0);  // the last token is not read
  EXPECT_EQ(outgrown(40, 1), 0);
  EXPECT_EQ(outgrown(40, 2), 42);
}

TEST(Generation, TextsAreThoseOfTheTokens) {
  const auto model = small_gpt(64);
  const Params params = init_params(model->specs(), 9);
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  Generator generator(model, tokenizer);
  const std::string prompts[] = {"abc", ""};
  const WriteOptions options{20, {.seed = 4}, {}};
  std::string streamed;
  const auto texts = generator.generate(
      params, prompts, options,
      [&](size_t row, std::string_view piece) { streamed += row == 1 ? piece : ""; });
  EXPECT_EQ(texts[0].size(), 20U);  // a byte each: ids above those of the tokenizer are not chosen
  EXPECT_EQ(texts[1], streamed);
  Decoder decoder(model, Execution::kGraph);
  const std::vector<std::vector<int32_t>> ids{tokenizer->encode("abc"), tokenizer->encode("\n")};
  const auto out = continue_tokens(decoder, params, ids, options, tokenizer->vocab_size());
  EXPECT_EQ(texts[0], tokenizer->decode(out[0]));
  EXPECT_EQ(texts[1], tokenizer->decode(out[1]));
}

TEST(Generation, APromptBeginsAsTheTokenizersTemplateSays) {
  const auto model = small_gpt(40);
  const Params params = init_params(model->specs(), 3);
  const auto tokenizer = read_tokenizer(beginning_words());
  const WriteOptions options{.tokens = 6, .sampling = {.greedy = true}};
  const std::vector<std::string> prompts{"the cat", ""};
  Generator generator(model, tokenizer);
  const std::vector<std::string> texts = generator.generate(params, prompts, options);
  Decoder decoder(model, Execution::kGraph);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t> ids = tokenizer->encode("B" + prompts[i]);
    const auto written =
        continue_tokens(decoder, params, std::span(&ids, 1), options, tokenizer->vocab_size());
    EXPECT_EQ(texts[i], tokenizer->decode(written[0]));
  }
}

TEST(Generation, SpacesBetweenWordsStay) {
  const auto model = small_gpt(64);
  const Params params = init_params(model->specs(), 9);
  const auto tokenizer = make_unigram(model_bytes(kPieces));
  Generator generator(model, tokenizer);
  const std::string prompts[] = {"the a"};
  const WriteOptions options{40, {.temperature = 2, .seed = 6}, {}};
  const std::string text = generator.generate(params, prompts, options).front();
  Decoder decoder(model, Execution::kGraph);
  const std::vector<std::vector<int32_t>> ids{tokenizer->encode(prompts[0])};
  auto all = ids[0];
  const auto out = continue_tokens(decoder, params, ids, options, tokenizer->vocab_size());
  all.insert(all.end(), out[0].begin(), out[0].end());
  EXPECT_EQ(prompts[0] + text, tokenizer->decode(all));
  EXPECT_THAT(text, HasSubstr(" the"));
}

TEST(Generation, AConversationGoesOnAsIfItWasReadAnew) {
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  const WriteOptions options{9, {.seed = 4}, {}};
  // Of a model with windows alone the cache does not grow, and the program that writes stays.
  for (const auto& [model, all_programs] : {std::pair(small_gpt(256), 5),
                                            {small_llama(256, {}), 5},
                                            {small_llama(256, {}, 31, 0), 4}}) {
    const Params params = init_params(model->specs(), 9);
    Generator going_on(model, tokenizer);
    std::vector<int32_t> said;
    // Programs: to begin, to write; to go on; and to begin and write where the room of 64 tokens has become too small.
    for (const auto& [turn, programs] :
         {std::pair("Hello, you!", 2),
          {"And then?", 3},
          {"A text that is longer than the window.", all_programs}}) {
      const std::vector<int32_t> more = tokenizer->encode(turn);
      said.insert(said.end(), more.begin(), more.end());
      std::string streamed;
      const std::string reply = going_on.reply(
          params, said, options, [&](size_t, std::string_view piece) { streamed += piece; });
      Generator anew(model, tokenizer);
      EXPECT_EQ(reply, anew.reply(params, said, options, nullptr));
      EXPECT_EQ(reply, streamed);
      EXPECT_EQ(reply.size(), 9U);
      EXPECT_EQ(going_on.compile_count(), programs);
      const std::vector<int32_t> answer = tokenizer->encode(reply);
      said.insert(said.end(), answer.begin(), answer.end());
    }
  }
}

TEST(Generation, AConversationThatChangedOrOutgrewItsRoomIsReadAnew) {
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  const auto model = small_gpt(100);
  const Params params = init_params(model->specs(), 9);
  Generator going_on(model, tokenizer);
  const WriteOptions options{20, {.seed = 4}, {}};
  for (const size_t size : {30U, 10U, 50U, 95U}) {
    const std::vector<int32_t> said =
        tokenizer->encode(std::string(size, 'a') + std::to_string(size));
    Generator anew(model, tokenizer);
    const std::string reply = going_on.reply(params, said, options, nullptr);
    EXPECT_EQ(reply, anew.reply(params, said, options, nullptr));
    EXPECT_EQ(reply.size(),
              std::min<size_t>(20, 100 - said.size() + 1));  // up to the last position
  }
  const std::vector<int32_t> longer(101, 65);
  EXPECT_THROW(going_on.reply(params, longer, options, nullptr), Error);
}

}  // namespace
}  // namespace mstrain
