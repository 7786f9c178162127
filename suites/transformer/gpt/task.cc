#include "suites/transformer/gpt/task.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/hf_simple.h"
#include "core/data/token_loader.h"
#include "core/data/utf8.h"
#include "core/tensor/host.h"
#include "core/train/step.h"
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

// The first windows of held-out data; those after them score nothing.
class FirstWindows final : public WindowSource {
 public:
  FirstWindows(std::shared_ptr<const EvaluationWindows> all, int64_t samples)
      : all_(std::move(all)), samples_(samples) {}

  int64_t seq_length() const override { return all_->seq_length(); }
  void read(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    all_->read(sample < samples_ ? sample : std::max(sample, all_->samples()), tokens, targets);
  }

 private:
  std::shared_ptr<const EvaluationWindows> all_;
  int64_t samples_;
};

// Bytes of the text behind the targets of a batch. Each row is decoded after its first token, so that what a tokenizer
// leaves out in front of a text is left out on both sides; the token between two documents stands for no text.
int64_t bytes_of(const Tokenizer& tokenizer, std::span<const Tensor> batch) {
  const std::vector<int32_t> tokens = to_vector<int32_t>(batch[0]);
  const std::vector<int32_t> targets = to_vector<int32_t>(batch[1]);
  const auto rows = static_cast<size_t>(batch[0].dim(0));
  const size_t seq = tokens.size() / rows;
  const std::optional<int32_t> between = tokenizer.end_of_text();
  int64_t bytes = 0;
  std::vector<int32_t> text;
  for (size_t row = 0; row < rows; ++row) {
    text.clear();
    const auto add = [&](int32_t id) {
      if (id != kIgnoreTarget && id != between) {
        text.push_back(id);
      }
    };
    add(tokens[row * seq]);
    bytes -= static_cast<int64_t>(tokenizer.decode(text).size());
    std::for_each_n(targets.begin() + static_cast<ptrdiff_t>(row * seq), seq, add);
    bytes += static_cast<int64_t>(tokenizer.decode(text).size());
  }
  return bytes;
}

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
  task.sums = [model](const Params& params, std::span<const Tensor> batch) {
    const CrossEntropySums sums = model.losses(params, batch[0], batch[1]);
    return TaskSums{{sums.loss, sums.count}, {{sums.correct, sums.count}}};
  };
  task.metrics = {kEvalAccuracy};
  task.loss_in_nats = true;
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
  for (const auto& [name, tokens] : corpus.valid) {
    const auto windows = std::make_shared<EvaluationWindows>(tokens, seq, -1, packing);
    const auto first = [windows](int64_t rows, int64_t samples) {
      return std::make_unique<TokenBatches>(std::make_shared<FirstWindows>(windows, samples), rows,
                                            0);
    };
    data.evaluation.push_back({name, first, windows->samples()});
  }
  data.scored_bytes = [tokenizer = corpus.tokenizer](std::span<const Tensor> batch) {
    return bytes_of(*tokenizer, batch);
  };
  data.identity = to_string(corpus.identity);
  OrderedJson description = hf_config(config.model, source);
  if (const FloatType type = config.train.precision.params; type != FloatType::kFp32) {
    description["dtype"] = type == FloatType::kBf16 ? "bfloat16" : "float16";
  }
  data.checkpoint_files = {{"config.json", description.dump(2) + "\n"}};
  for (const auto& files : {corpus.tokenizer->files(), hugging_face_files(*corpus.tokenizer)}) {
    for (const TokenizerFile& file : files) {
      data.checkpoint_files.emplace_back(file.name, file.bytes);
    }
  }
  const auto generator =
      std::make_shared<Generator>(Gpt(config.model), corpus.tokenizer, config.train.run.execution);
  data.sample = [generator](const Params& params, const std::string& prompt, int64_t tokens) {
    const ContinueOptions options{tokens, {.temperature = 0.8, .seed = 1}, {}};
    return replace_invalid_utf8(
        generator->generate(cast_params(params, Dtype::kF32), std::span(&prompt, 1), options)
            .front());
  };
  return data;
}

}  // namespace mstrain::gpt
