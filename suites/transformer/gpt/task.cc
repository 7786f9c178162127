#include "suites/transformer/gpt/task.h"

#include "core/base/error.h"
#include "core/data/token_loader.h"
#include "core/data/utf8.h"
#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "suites/transformer/gpt/generate.h"
#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"

namespace mstrain::gpt {
namespace {

class TokenBatches final : public BatchStream {
 public:
  TokenBatches(std::shared_ptr<const WindowSource> windows, int64_t rows, int64_t first)
      : loader_(std::move(windows), {.batch = rows}, {first}) {}

  Tensors next() override {
    const TokenBatch& batch = loader_.next();
    const Shape shape{batch.batch, batch.seq};
    return {tensor<int32_t>(batch.tokens, shape), tensor<int32_t>(batch.targets, shape)};
  }
  int64_t samples() const override { return loader_.state().samples; }

 private:
  TokenLoader loader_;
};

}  // namespace

GptRunConfig with_vocab(GptRunConfig config, int64_t tokenizer_size, const YamlNode& tree) {
  auto& vocab = config.model.vocab_size;
  if (vocab.is_word()) {
    vocab = tokenizer_size;
  } else if (*vocab.value < tokenizer_size) {
    config_fail(tree, "model.vocab_size",
                fmt::format("{} is less than the {} tokens of data.tokenizer", *vocab.value,
                            tokenizer_size));
  }
  return config;
}

TrainTask make_task(const GptRunConfig& config) {
  const Gpt model(config.model, config.train.memory.recompute);
  const int64_t seq = config.data.seq_length;
  TrainTask task;
  task.parameters = model.specs();
  for (const ParamSpec& spec : task.parameters) {
    task.stored_shapes.push_back(hf_shape(spec.name, spec.type.shape));
  }
  task.batch_types = [seq](int64_t rows) { return Types(2, TensorType{Dtype::kI32, {rows, seq}}); };
  task.loss = [model](const Params& params, std::span<const Tensor> batch) {
    return model.loss(params, batch[0], batch[1]);
  };
  task.evaluate = [model](const Params& params, std::span<const Tensor> batch) {
    const Tensor losses =
        cross_entropy_rows(model(params, batch[0]), batch[1], {.ignore_index = kIgnoreTarget});
    return LossSum{sum(losses), sum(cast(not_equal(batch[1], kIgnoreTarget), Dtype::kF32))};
  };
  task.tokens_per_sample = seq;
  return task;
}

TrainData make_data(const GptRunConfig& config, const Corpus& corpus, const Json& source) {
  const int64_t seq = config.data.seq_length;
  const bool shuffle = config.data.shuffle;
  const bool packing = config.data.packing;
  TrainData data;
  data.training = [corpus, seq, shuffle, packing](uint64_t seed, int64_t rows, int64_t first) {
    auto windows = std::make_shared<TrainingWindows>(
        corpus.train, TrainingWindows::Options{
                          .seq_length = seq, .shuffle = shuffle, .seed = seed, .packing = packing});
    return std::make_unique<TokenBatches>(std::move(windows), rows, first);
  };
  if (corpus.valid != nullptr) {
    const auto windows = std::make_shared<EvaluationWindows>(corpus.valid, seq, -1, packing);
    data.evaluation = [windows](int64_t rows) {
      return std::make_unique<TokenBatches>(windows, rows, 0);
    };
    data.evaluation_batches = [windows](int64_t rows) {
      return (windows->samples() + rows - 1) / rows;
    };
  }
  data.identity = to_string(corpus.identity);
  data.checkpoint_files = {{"config.json", hf_config(config.model, source).dump(2) + "\n"}};
  for (TokenizerFile& file : corpus.tokenizer->files()) {
    data.checkpoint_files.emplace_back(std::move(file.name), std::move(file.bytes));
  }
  const auto generator =
      std::make_shared<Generator>(Gpt(config.model), corpus.tokenizer, config.train.run.execution);
  data.sample = [generator](const Params& params, const std::string& prompt, int64_t tokens) {
    const ContinueOptions options{tokens, {.temperature = 0.8, .seed = 1}, {}};
    return replace_invalid_utf8(
        generator->generate(params, std::span(&prompt, 1), options).front());
  };
  return data;
}

}  // namespace mstrain::gpt
