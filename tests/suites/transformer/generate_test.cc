#include "suites/transformer/text/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/simple_tokenizers.h"
#include "core/tensor/host.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"
#include "tests/core/data/small_tokenizers.h"
#include "tests/core/data/small_unigram.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kVocab = 300;

std::shared_ptr<const CausalModel> small(int64_t positions) {
  gpt::GptConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 24;
  config.num_layers = 2;
  config.num_attention_heads = 3;
  config.max_position_embeddings = positions;
  config.scale_attn_by_inverse_layer_idx = true;
  config.dropout = {0.5, 0.5, 0.5};  // not in inference
  config.init.std = 0.4;             // so that texts differ
  return std::make_shared<gpt::Gpt>(config);
}

// Two heads for each of keys, and a window, in the second layer or in both, that is shorter than the texts.
std::shared_ptr<const CausalModel> small_llama(int64_t positions, const RopeConfig& rope,
                                               int64_t window = 5, int64_t full_layers = 1) {
  llama::LlamaConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 24;
  config.num_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.max_position_embeddings = positions;
  config.attention_bias = llama::AttentionBias::kQkv;
  config.sliding_window = window;
  config.full_attention_layers = full_layers;
  config.rope = rope;
  config.dropout.attention = 0.5;
  config.init.std = 0.4;
  return std::make_shared<llama::Llama>(config);
}

std::vector<int32_t> random_ids(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(rng.below(kVocab)));
  }
  return ids;
}

// Logits of what follows `ids`, by the whole model.
std::vector<float> uncached(const CausalModel& model, const Params& params,
                            std::span<const int32_t> ids) {
  const auto t = static_cast<int64_t>(ids.size());
  const std::vector<float> all = to_vector<float>(model(params, tensor<int32_t>(ids, {1, t})));
  return {all.end() - kVocab, all.end()};
}

int32_t likeliest(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// A decoder's logits, step by step, against those of the whole model in every row.
void expect_uncached(const std::shared_ptr<const CausalModel>& model, Execution execution) {
  const Params params = init_params(model->specs(), 7);
  Decoder decoder(model, execution);
  std::vector<std::vector<int32_t>> texts{random_ids(3, 1), random_ids(70, 2), random_ids(1, 3)};
  std::vector<std::span<const int32_t>> prompts(texts.begin(), texts.end());
  std::vector<float> logits = decoder.start(params, prompts, 90);
  for (int step = 0; step < 20; ++step) {
    std::vector<int32_t> next;
    for (size_t row = 0; row < texts.size(); ++row) {
      const std::vector<float> expected = uncached(*model, params, texts[row]);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(logits[row * kVocab + i], expected[i], 2e-4) << step << " " << row;
      }
      next.push_back(likeliest(expected));
      texts[row].push_back(next.back());
    }
    logits = decoder.next(params, next);
  }
}

class DecoderTest : public testing::TestWithParam<Execution> {};
INSTANTIATE_TEST_SUITE_P(Modes, DecoderTest, testing::Values(Execution::kEager, Execution::kGraph));

TEST_P(DecoderTest, EqualsTheUncachedForwardInEveryRow) { expect_uncached(small(150), GetParam()); }

TEST_P(DecoderTest, TurnsKeysOnceAndKeepsThemByKeyHead) {
  expect_uncached(small_llama(150, {}), GetParam());
  expect_uncached(small_llama(150, {.type = RopeType::kYarn, .factor = 4}), GetParam());
}

TEST_P(DecoderTest, SeesThroughWindowsOfAnyLength) {
  for (const int64_t window :
       {1, 64, 75, 128, 149}) {  // of one position, between lengths, and of all
    expect_uncached(small_llama(150, {}, window, 0), GetParam());
  }
}

// Keys and values of 4096 positions are 768 KiB in both layers.
TEST(Decoder, KeepsNoMoreThanItsWindows) {
  const auto peak = [](int64_t window) {
    const auto model = small_llama(4096, {}, window, 0);
    const Params params = init_params(model->specs(), 7);
    const auto allocator = std::make_shared<Allocator>(0);
    Context context = current_context();
    context.allocator = allocator;
    const ContextScope scope(context);
    Decoder decoder(model, Execution::kGraph);
    const std::vector<int32_t> prompt = random_ids(60, 1);
    const std::span<const int32_t> prompts[] = {prompt};
    decoder.start(params, prompts, 4096);
    for (int32_t id = 0; id < 20; ++id) {
      decoder.next(params, std::span(&id, 1));
    }
    return allocator->stats().peak_bytes;
  };
  constexpr int64_t kAllPositions = 768 << 10;
  EXPECT_GT(peak(4096), kAllPositions);
  EXPECT_LT(peak(16), kAllPositions / 2);
}

// Without what the allocator keeps for later.
TEST(Decoder, TakesTheBytesThatItSays) {
  const auto model = small_llama(512, {}, 16, 1);
  const Params params = init_params(model->specs(), 7);
  for (const size_t count : {1, 24}) {
    std::vector<std::vector<int32_t>> texts;
    for (size_t i = 0; i < count; ++i) {
      texts.push_back(random_ids(40, i));
    }
    const std::vector<std::span<const int32_t>> prompts(texts.begin(), texts.end());
    Context context = current_context();
    context.allocator = std::make_shared<Allocator>(0);
    const ContextScope scope(context);
    Decoder decoder(model, Execution::kGraph);
    const auto said =
        static_cast<double>(decoder.bytes(static_cast<int64_t>(count), 40, 400, Dtype::kF32));
    EXPECT_EQ(context.allocator->stats().peak_bytes, 0);
    decoder.start(params, prompts, 400);
    for (int step = 0; step < 5; ++step) {
      decoder.next(params, std::vector<int32_t>(count, 1));
    }
    const auto taken = static_cast<double>(context.allocator->stats().peak_bytes);
    EXPECT_LT(taken, said) << count;
    EXPECT_GT(taken, 0.75 * said) << count;
  }
}

TEST(Decoder, HasDeclaredBucketsAndRefusesMore) {
  const auto model = small(150);
  const Params params = init_params(model->specs(), 7);
  Decoder decoder(model, Execution::kGraph);
  EXPECT_EQ(decoder.bucket(1), 64);
  EXPECT_EQ(decoder.bucket(64), 64);
  EXPECT_EQ(decoder.bucket(65), 128);
  EXPECT_EQ(decoder.bucket(129), 150);
  EXPECT_EQ(Decoder(small(40), Execution::kGraph).bucket(1), 40);
  EXPECT_EQ(decoder.bucket(5, 2), 16);  // of several sequences
  EXPECT_EQ(decoder.bucket(17, 2), 32);
  const std::vector<int32_t> prompt = random_ids(63, 1);
  const std::span<const int32_t> prompts[] = {prompt};
  decoder.start(params, prompts, 63);
  const int32_t id = 5;
  decoder.next(params, std::span(&id, 1));
  EXPECT_THROW(decoder.next(params, std::span(&id, 1)), Error);
  const std::span<const int32_t> empty[] = {std::span<const int32_t>()};
  EXPECT_THROW(decoder.start(params, empty, 63), Error);
  const std::vector<int32_t> foreign{kVocab};
  const std::span<const int32_t> unknown[] = {foreign};
  EXPECT_THROW(decoder.start(params, unknown, 63), Error);
}

// Equal prompts are read once, whatever stands between them; every sequence is what it would be alone.
TEST(Decoder, ReadsEqualPromptsOnce) {
  for (const Execution execution : {Execution::kGraph, Execution::kEager}) {
    for (const auto& model : {small(64), small_llama(64, {}), small_llama(64, {}, 6, 0)}) {
      const Params params = init_params(model->specs(), 7);
      std::vector<std::vector<int32_t>> prompts;
      for (int i = 0; i < 36; ++i) {
        prompts.push_back(
            random_ids(4 + static_cast<size_t>(i % 5), static_cast<uint64_t>(i % 5) + 1));
      }
      Decoder decoder(model, execution);
      const std::vector<std::span<const int32_t>> spans(prompts.begin(), prompts.end());
      std::vector<std::vector<float>> logits{decoder.start(params, spans, 12)};
      const std::vector<int32_t> next = random_ids(prompts.size(), 9);
      logits.push_back(decoder.next(params, next));
      for (size_t i = 0; i < prompts.size(); ++i) {
        Decoder alone(model, execution);
        const std::span<const int32_t> one[] = {prompts[i]};
        const auto vocab = logits[0].size() / prompts.size();
        std::vector<std::vector<float>> expected{alone.start(params, one, 12)};
        expected.push_back(alone.next(params, std::span(&next[i], 1)));
        for (size_t step = 0; step < 2; ++step) {
          for (size_t v = 0; v < vocab; ++v) {
            ASSERT_NEAR(logits[step][i * vocab + v], expected[step][v], 1e-5) << i << " " << step;
          }
        }
      }
      const int64_t programs = decoder.compile_count();
      prompts[1] = random_ids(3, 77);  // six different ones instead of five are no other program
      const std::vector<std::span<const int32_t>> others(prompts.begin(), prompts.end());
      decoder.start(params, others, 12);
      EXPECT_EQ(decoder.compile_count(), programs);
    }
  }
}

TEST(Generation, NothingIsCompiledAgainAsTheTextGrows) {
  const auto model = small(256);
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
  const auto model = small(16);
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
  const auto model = small(64);
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

TEST(Generation, StopsBeforeAnyOfTheStopTokens) {
  const auto model = small(64);
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
  const auto model = small(64);
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
  const auto model = small(16);
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
  const auto model = small(64);
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
  const auto model = small(40);
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
  const auto model = small(64);
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
  for (const auto& [model, all_programs] :
       {std::pair(small(256), 5), {small_llama(256, {}), 5}, {small_llama(256, {}, 31, 0), 4}}) {
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
  const auto model = small(100);
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

// How often each id is chosen, of 4000.
std::vector<int> draws(const std::vector<float>& logits, SamplingOptions options) {
  std::vector<int> counts(logits.size());
  Rng rng(17);
  for (int i = 0; i < 4000; ++i) {
    ++counts[static_cast<size_t>(choose_token(logits, options, rng))];
  }
  return counts;
}

TEST(Sampling, FollowsTheProbabilities) {
  // 0.5, 0.25, 0.125, 0.125; a binomial count of 4000 strays by less than 5 sqrt(4000 / 4) = 158.
  const std::vector<float> logits{std::log(2.0F), std::log(4.0F), 0, 0};
  const auto expect = [&](const SamplingOptions& options, std::vector<double> shares) {
    const std::vector<int> counts = draws(logits, options);
    for (size_t i = 0; i < counts.size(); ++i) {
      EXPECT_NEAR(counts[i], 4000 * shares[i], shares[i] == 0 ? 0 : 158) << i;
    }
  };
  expect({}, {0.25, 0.5, 0.125, 0.125});
  expect({.temperature = 0.5}, {4 / 22., 16 / 22., 1 / 22., 1 / 22.});
  expect({.top_k = 2}, {1 / 3., 2 / 3., 0, 0});
  expect({.top_k = 3}, {2 / 7., 4 / 7., 1 / 7., 0});
  expect({.top_p = 0.5}, {0, 1, 0, 0});
  expect({.top_p = 0.51}, {1 / 3., 2 / 3., 0, 0});
  expect({.top_k = 3, .top_p = 0.9}, {2 / 7., 4 / 7., 1 / 7., 0});
  expect({.top_k = 3, .top_p = 0.8}, {1 / 3., 2 / 3., 0, 0});
  expect({.top_k = 100, .top_p = 1}, {0.25, 0.5, 0.125, 0.125});
  expect({.greedy = true}, {0, 1, 0, 0});
}

TEST(Sampling, TopPSortsAsFarAsItMust) {
  // 1000 tokens that are equally likely but for noise: 90 % of them are kept.
  Rng rng(3);
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) {
    logits.push_back(static_cast<float>(rng.uniform()) * 1e-3F);
  }
  const std::vector<int> counts = draws(logits, {.top_p = 0.3});
  std::vector<size_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  for (size_t i = 301; i < ids.size(); ++i) {
    EXPECT_EQ(counts[ids[i]], 0) << i;
  }
  EXPECT_GT(
      std::count_if(ids.begin(), ids.begin() + 300, [&](size_t id) { return counts[id] > 0; }),
      290);
}

TEST(Sampling, MinPCutsWhatIsUnlikelyBesideTheLikeliest) {
  // Probabilities 8, 4, 2, 1 of 15; at temperature 2 their roots.
  std::vector<float> logits;
  for (const double weight : {2.0, 8.0, 1.0, 4.0}) {
    logits.push_back(static_cast<float>(std::log(weight)));
  }
  const auto support = [&](const SamplingOptions& options) {
    Rng rng(1);
    std::vector<int64_t> out;
    const int64_t id = choose_token(logits, options, rng, &out);
    EXPECT_THAT(out, testing::Contains(id));
    std::sort(out.begin(), out.end());
    return out;
  };
  EXPECT_THAT(support({.min_p = 0.2}), ElementsAre(0, 1, 3));
  EXPECT_THAT(support({.min_p = 0.3}), ElementsAre(1, 3));
  EXPECT_THAT(support({.temperature = 2, .min_p = 0.3}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(support({.top_k = 2, .min_p = 0.01}), ElementsAre(1, 3));
  EXPECT_THAT(support({.top_p = 0.9, .min_p = 0.4}), ElementsAre(1, 3));
  EXPECT_THAT(support({.min_p = 1}), ElementsAre(1));
  EXPECT_THAT(support({}), ElementsAre(0, 1, 2, 3));
  const std::vector<int> counts = draws(logits, {.min_p = 0.3});
  EXPECT_EQ(counts[0] + counts[2], 0);
  EXPECT_NEAR(counts[1], 2.0 * counts[3], 0.3 * counts[1]);
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  Rng rng(1);
  EXPECT_THROW(choose_token({}, {}, rng), Error);
  EXPECT_THROW(choose_token(std::vector<float>{1, NAN}, {}, rng), Error);
  EXPECT_THROW(check_sampling({.temperature = 0}), Error);
  EXPECT_THROW(check_sampling({.top_k = 0}), Error);
  EXPECT_THROW(check_sampling({.top_p = 1.5}), Error);
  EXPECT_THROW(check_sampling({.min_p = 0}), Error);
}

}  // namespace
}  // namespace mstrain
