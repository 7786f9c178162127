#include "suites/transformer/text/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "suites/transformer/text/generate.h"
#include "tests/suites/transformer/small_decoders.h"

namespace mstrain {
namespace {

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

TEST_P(DecoderTest, EqualsTheUncachedForwardInEveryRow) {
  expect_uncached(small_gpt(150), GetParam());
}

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
  const auto model = small_gpt(150);
  const Params params = init_params(model->specs(), 7);
  Decoder decoder(model, Execution::kGraph);
  EXPECT_EQ(decoder.bucket(1), 64);
  EXPECT_EQ(decoder.bucket(64), 64);
  EXPECT_EQ(decoder.bucket(65), 128);
  EXPECT_EQ(decoder.bucket(129), 150);
  EXPECT_EQ(Decoder(small_gpt(40), Execution::kGraph).bucket(1), 40);
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
    for (const auto& model : {small_gpt(64), small_llama(64, {}), small_llama(64, {}, 6, 0)}) {
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

}  // namespace
}  // namespace mstrain
