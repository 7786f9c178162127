// What an evaluation of a GPT measures, against counting by hand.
#include "suites/transformer/gpt/gpt_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tensor/host.h"
#include "core/train/evaluation.h"
#include "suites/transformer/gpt/model.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/data/small_tokenizers.h"

namespace mstrain::gpt {
namespace {

// Characters of one to four bytes.
const std::string kText = [] {
  std::string text;
  Rng rng(20261121);
  while (text.size() < 3000) {
    static constexpr const char* kWords[] = {"cab ", "the ", "zz\n", "é", "日本", "🜚 ", "the cab "};
    text += kWords[rng.below(7)];
  }
  return text;
}();

class Measures : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) {
    real_files().open(folder_ / name, WriteMode::kTruncate)->append(text);
  }

  GptRun config(TokenizerConfig tokenizer) {
    write("train.txt", kText);
    write("valid.txt", kText.substr(0, 700));
    GptRun out;
    out.model.hidden_size = 8;
    out.model.num_layers = 1;
    out.model.num_attention_heads = 2;
    out.model.max_position_embeddings = 16;
    out.model.init.std = 0.3;  // so that logits differ
    out.data.train = {{folder_ / "train.txt", {}}};
    out.data.valid = {{"", {{folder_ / "valid.txt", {}}}}};
    out.data.tokenizer = std::move(tokenizer);
    out.data.seq_length = 16;
    out.train.batch.global = 6;
    return out;
  }

  struct Values {
    double loss, perplexity, bits_per_byte, accuracy;
    int64_t predictions;
  };
  // With `rows` samples at once.
  static Values measured(const GptRun& config, int64_t rows, const Params& params) {
    const TrainTask task = config.task();
    const TrainData data = config.samples();
    const Context context;
    const LossProgram program(task, config.train, rows, context);
    const std::atomic<bool> never = false;
    const auto result =
        evaluate(program, params, task, data, config.train, rows, never, [&] { return params; });
    EXPECT_EQ(metrics_of(task, data),
              (std::vector<std::string>{"eval_loss", "eval_perplexity", "eval_bits_per_byte",
                                        "eval_accuracy"}));
    return {result->metrics.at(0).value, result->metrics.at(1).value, result->metrics.at(2).value,
            result->metrics.at(3).value, result->metrics.at(0).predictions};
  }

  // Window by window, token by token, in double.
  static Values counted(const GptRun& config, const Corpus& corpus, const Params& params,
                        int64_t bytes) {
    const Gpt model(config.model);
    const int64_t seq = config.data.seq_length;
    const int64_t vocab = *config.model.vocab_size.value;
    const EvaluationWindows windows(corpus.valid.at(0).tokens, seq);
    double loss = 0;
    int64_t right = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < windows.samples(); ++i) {
      std::vector<int32_t> tokens(static_cast<size_t>(seq));
      std::vector<int32_t> targets(tokens.size());
      windows.read(i, tokens, targets);
      const std::vector<double> logits =
          to_doubles(model(params, tensor<int32_t>(tokens, {1, seq})));
      for (int64_t t = 0; t < seq; ++t) {
        const int32_t target = targets[static_cast<size_t>(t)];
        if (target == kIgnoreTarget) {
          continue;
        }
        const auto begin = logits.begin() + t * vocab;
        double sum = 0;
        std::for_each(begin, begin + vocab, [&](double x) { sum += std::exp(x); });
        loss += std::log(sum) - begin[target];
        right += std::max_element(begin, begin + vocab) - begin == target ? 1 : 0;
        ++count;
      }
    }
    const auto n = static_cast<double>(count);
    return {loss / n, std::exp(loss / n), loss / std::log(2.0) / static_cast<double>(bytes),
            static_cast<double>(right) / n, count};
  }

  void expect_counted(TokenizerConfig tokenizer, int64_t first_bytes) {
    GptRun run = config(std::move(tokenizer));
    const Corpus corpus = open_corpus(real_files(), run.data);
    run.use(corpus);
    run.settle(run.data_ids(), YamlNode());
    const Params params = init_params(Gpt(run.model).specs(), 5);
    // All of the text but its first token.
    const Values expected = counted(run, corpus, params, 700 - first_bytes);
    for (const int64_t chunks : {1, 4, 7}) {
      run.train.memory.loss_chunks = NoneOr<int64_t>(chunks);
      for (const int64_t rows : {1, 6}) {
        const Values values = measured(run, rows, params);
        EXPECT_EQ(values.predictions, expected.predictions);
        EXPECT_NEAR(values.loss, expected.loss, 1e-5 * expected.loss);
        EXPECT_NEAR(values.perplexity, expected.perplexity, 1e-4 * expected.perplexity);
        EXPECT_NEAR(values.bits_per_byte, expected.bits_per_byte, 1e-5 * expected.bits_per_byte);
        EXPECT_DOUBLE_EQ(values.accuracy, expected.accuracy);
      }
    }
  }

  TemporaryFolder folder_;
};

TEST_F(Measures, OfBytes) { expect_counted({.type = TokenizerType::kByte}, 1); }

TEST_F(Measures, OfCharactersOfSeveralBytes) {
  const size_t second = static_cast<size_t>(
      std::find_if(kText.begin() + 1, kText.end(), [](char c) { return (c & 0xC0) != 0x80; }) -
      kText.begin());
  expect_counted({.type = TokenizerType::kChar}, static_cast<int64_t>(second));
}

TEST_F(Measures, OfTokensThatEndInsideCharacters) {
  write("tokenizer.json", words().dump());
  const auto tokenizer = load_tokenizer(real_files(), folder_ / "tokenizer.json");
  const std::vector<int32_t> ids = tokenizer->encode(kText);
  const auto first = static_cast<int64_t>(tokenizer->decode(std::span(ids).first(1)).size());
  expect_counted({.type = TokenizerType::kHf, .path = folder_ / "tokenizer.json"}, first);
}

// Where all logits are equal nothing is known, and a constant guess is right where it happens to be.
TEST_F(Measures, TiesAreNoHits) {
  GptRun run = config({.type = TokenizerType::kByte});
  run.model.init.std = 0;
  const Corpus corpus = open_corpus(real_files(), run.data);
  run.use(corpus);
  run.settle(256, YamlNode());
  const Values values = measured(run, 2, init_params(Gpt(run.model).specs(), 5));
  EXPECT_EQ(values.accuracy, 0);  // the guess is byte 0
  EXPECT_NEAR(values.bits_per_byte, 8, 1e-5);
}

}  // namespace
}  // namespace mstrain::gpt
