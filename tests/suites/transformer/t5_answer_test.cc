#include "suites/transformer/t5/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/simple_tokenizers.h"
#include "core/tensor/host.h"
#include "tests/suites/transformer/t5_golden.h"

namespace mstrain::t5 {
namespace {

using testing::HasSubstr;

const golden::Case& version_1_1() { return golden_file().cases[2]; }

std::vector<std::vector<int32_t>> questions() { return golden_file().rest.at("questions"); }

class AnswerTest : public testing::TestWithParam<Execution> {};
INSTANTIATE_TEST_SUITE_P(Modes, AnswerTest, testing::Values(Execution::kEager, Execution::kGraph));

// Greedy, and by beams with several length penalties.
TEST_P(AnswerTest, EqualThoseOfHuggingFace) {
  const T5 model(golden_config(version_1_1()));
  const Params p = golden::params(model.specs(), version_1_1(), Dtype::kF32);
  Decoder decoder(model, GetParam());
  for (const Json& expected : golden_file().rest.at("answers")) {
    const WriteOptions options{
        .tokens = 9,
        .sampling = {.greedy = true},
        .beams = {.beams = expected.at("beams"), .length_penalty = expected.at("length_penalty")}};
    const std::vector<std::vector<int32_t>> answers = expected.at("answers");
    EXPECT_EQ(answer_tokens(decoder, p, questions(), options, 13), answers) << expected;
  }
}

// Logits of what follows `written` as an answer to `source`, by the whole model.
std::vector<float> uncached(const T5& model, const Params& p, const std::vector<int32_t>& source,
                            const std::vector<int32_t>& written) {
  const Text from{tensor<int32_t>(source, {1, static_cast<int64_t>(source.size())})};
  const Text to{tensor<int32_t>(written, {1, static_cast<int64_t>(written.size())})};
  const std::vector<float> all =
      to_vector<float>(model.logits(p, model.decode(p, to, model.encode(p, from), from)));
  return {all.end() - 13, all.end()};
}

TEST_P(AnswerTest, CachedLogitsEqualTheUncachedOnesInEveryRow) {
  const T5 model(golden_config(version_1_1()));
  const Params p = golden::params(model.specs(), version_1_1(), Dtype::kF32);
  Decoder decoder(model, GetParam());
  const auto sources = questions();
  decoder.start(p, sources, 2, 70);
  std::vector<std::vector<int32_t>> written(6, {0});
  Rng rng(3);
  for (int step = 0; step < 5; ++step) {
    std::vector<int32_t> last;
    std::vector<int32_t> from;
    const auto before = written;
    for (size_t row = 0; row < written.size(); ++row) {
      // From the second step on, the copies of an answer may change places.
      from.push_back(static_cast<int32_t>(step == 0 ? row : row / 2 * 2 + rng.below(2)));
      if (step > 0) {
        written[row] = before[static_cast<size_t>(from.back())];
        written[row].push_back(static_cast<int32_t>(rng.below(13)));
      }
      last.push_back(written[row].back());
    }
    const std::vector<float> logits =
        step == 0 ? decoder.next(p, last) : decoder.next_from(p, last, from);
    for (size_t row = 0; row < written.size(); ++row) {
      const std::vector<float> expected = uncached(model, p, sources[row / 2], written[row]);
      for (size_t i = 0; i < 13; ++i) {
        ASSERT_NEAR(logits[row * 13 + i], expected[i], 1e-4) << step << " " << row;
      }
    }
  }
}

TEST(Answer, DependsOnItsOwnSourceAlone) {
  const T5 model(golden_config(version_1_1()));
  const Params p = golden::params(model.specs(), version_1_1(), Dtype::kF32);
  Decoder decoder(model, Execution::kGraph);
  const auto sources = questions();
  WriteOptions options{.tokens = 9, .sampling = {.seed = 5}};
  const auto together = answer_tokens(decoder, p, sources, options, 13);
  EXPECT_EQ(answer_tokens(decoder, p, std::span(sources).first(1), options, 13)[0], together[0]);
  options.sampling.seed = 6;
  EXPECT_NE(answer_tokens(decoder, p, sources, options, 13), together);
  options = {.tokens = 9, .sampling = {.greedy = true}, .stop = {9}};
  EXPECT_TRUE(answer_tokens(decoder, p, sources, options, 13)[1].empty());
  for (const auto& answer : answer_tokens(decoder, p, sources, options, 6)) {
    for (const int32_t id : answer) {
      EXPECT_LT(id, 6);
    }
  }
}

T5Config tiny(int64_t vocab, int64_t pad, int64_t end) {
  T5Config config;
  config.vocab_size = vocab;
  config.hidden_size = 16;
  config.d_kv = 8;
  config.num_layers = 1;
  config.num_attention_heads = 2;
  config.ffn_hidden_size = 16;
  config.extra_ids = 2;
  config.pad_token = pad;
  config.eos_token = end;
  config.decoder_start_token = pad;
  return config;
}

TEST(Answer, AreTextsOfTheTokenizer) {
  const T5 model(tiny(260, 256, 257));
  Answerer answerer(model, std::make_shared<ByteTokenizer>(), Execution::kGraph);
  const std::vector<std::string> prompts{"", "a<extra_id_0>b"};
  std::vector<std::string> pieces(2);
  const WriteOptions options{.tokens = 20, .sampling = {.seed = 1}};
  const auto texts =
      answerer.generate(init_params(model.specs(), 1), prompts, options,
                        [&](size_t row, std::string_view piece) { pieces[row] += piece; });
  EXPECT_EQ(texts, pieces);
  EXPECT_FALSE(texts[1].empty());
  EXPECT_TRUE(answerer.searches_beams());
}

// Sentinels follow the tokenizer's ids where these have what fills up and what ends a text.
TEST(Answer, HasTheSentinelsOfTheTokensThatTheModelNames) {
  const T5 model(tiny(258, 0, 1));
  const Params params = init_params(model.specs(), 1);
  const WriteOptions options{.tokens = 100, .sampling = {.seed = 1}};
  Answerer answerer(model, std::make_shared<ByteTokenizer>(), Execution::kGraph);
  const std::vector<std::string> prompts(8, "<extra_id_0>");
  std::string text;
  for (const std::string& answer : answerer.generate(params, prompts, options)) {
    text += answer;
  }
  Decoder decoder(model, Execution::kGraph);
  const std::vector<std::vector<int32_t>> sources(8, {257, 1});
  std::string expected;
  for (const auto& answer : answer_tokens(decoder, params, sources, options, 258)) {
    for (const int32_t id : answer) {
      expected += id == 0    ? ""
                  : id < 256 ? std::string(1, static_cast<char>(id))
                             : fmt::format("<extra_id_{}>", 257 - id);
    }
  }
  EXPECT_EQ(text, expected);
  EXPECT_THAT(text, HasSubstr("<extra_id_"));
}

}  // namespace
}  // namespace mstrain::t5

namespace mstrain {
namespace {

// The best text of at most `tokens` tokens by trying all of them: what a search with every beam finds.
struct Best {
  std::vector<int32_t> text;
  double score = -INFINITY;
};
void try_all(const std::vector<std::vector<float>>& logits, double penalty,
             std::vector<int32_t> text, double log_probability, Best& best) {
  const std::vector<float>& row = logits[text.empty() ? 0 : 1 + static_cast<size_t>(text.back())];
  double sum = 0;
  for (const float x : row) {
    sum += std::exp(static_cast<double>(x));
  }
  const auto length = static_cast<double>(text.size() + 1);
  for (size_t id = 0; id < row.size(); ++id) {
    const double score = log_probability + static_cast<double>(row[id]) - std::log(sum);
    std::vector<int32_t> more = text;
    if (id != 0) {  // 0 ends a text
      more.push_back(static_cast<int32_t>(id));
    }
    if (id == 0 || more.size() == 4) {
      if (score / std::pow(length, penalty) > best.score) {
        best = {more, score / std::pow(length, penalty)};
      }
    } else {
      try_all(logits, penalty, more, score, best);
    }
  }
}

TEST(BeamSearch, FindsTheBestTextWhereEveryBeamIsFollowed) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    std::vector<std::vector<float>> logits(5);  // after nothing, and after each token
    for (auto& row : logits) {
      for (int i = 0; i < 4; ++i) {
        row.push_back(static_cast<float>(rng.uniform(-2, 2)));
      }
    }
    constexpr int64_t kAll = 81;
    BeamSearch search({.beams = kAll, .length_penalty = 0}, 4, {0});
    std::vector<float> first;
    for (int64_t beam = 0; beam < kAll; ++beam) {
      first.insert(first.end(), logits[0].begin(), logits[0].end());
    }
    search.advance(first, 4);
    while (!search.is_done()) {
      std::vector<float> next;
      for (const int32_t token : search.tokens()) {
        const auto& row = logits[1 + static_cast<size_t>(token)];
        next.insert(next.end(), row.begin(), row.end());
      }
      search.advance(next, 4);
    }
    Best best;
    try_all(logits, 0, {}, 0, best);
    EXPECT_EQ(search.best(), best.text) << seed;
  }
}

TEST(BeamSearch, RefusesOptionsWithoutSense) {
  EXPECT_THROW(check_beams({.beams = 0}), Error);
  EXPECT_THROW(check_beams({.beams = 2, .length_penalty = NAN}), Error);
  EXPECT_THROW(BeamSearch({.beams = 2}, 0, {}), Error);
  BeamSearch search({.beams = 1}, 3, {});
  const std::vector<float> bad{1, NAN};
  EXPECT_THROW(search.advance(bad, 2), Error);
}

}  // namespace
}  // namespace mstrain
