#include "suites/transformer/text/next_token.h"

#include <algorithm>

#include "core/data/token_loader.h"
#include "core/data/windows.h"
#include "core/tensor/host.h"
#include "core/train/metrics.h"

namespace mstrain {
namespace {

class TokenBatches final : public BatchStream {
 public:
  TokenBatches(std::shared_ptr<const WindowSource> windows, const BatchPart& part, int64_t first)
      : loader_(std::move(windows), {.batch = part}, {first}) {}

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
// leaves out in front of a text is left out on both sides; tokens around documents stand for no text.
int64_t bytes_of(const Tokenizer& tokenizer, std::span<const Tensor> batch) {
  const std::vector<int32_t> tokens = to_vector<int32_t>(batch[0]);
  const std::vector<int32_t> targets = to_vector<int32_t>(batch[1]);
  const auto rows = static_cast<size_t>(batch[0].dim(0));
  const size_t seq = tokens.size() / rows;
  std::vector<int32_t> around = tokenizer.special().before;
  if (const auto end = tokenizer.end_of_text()) {
    around.push_back(*end);
  }
  int64_t bytes = 0;
  std::vector<int32_t> text;
  for (size_t row = 0; row < rows; ++row) {
    text.clear();
    const auto add = [&](int32_t id) {
      if (id != kIgnoreTarget && std::find(around.begin(), around.end(), id) == around.end()) {
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

TrainTask next_token_task(const Network& network, int64_t seq_length, NextTokenLosses losses) {
  TrainTask task;
  task.parameters = network.specs();
  task.stored_shapes = stored_shapes(network, task.parameters);
  task.batch_types = [seq_length](int64_t rows) {
    return Types(2, TensorType{Dtype::kI32, {rows, seq_length}});
  };
  task.sums = [losses = std::move(losses)](const Params& params, std::span<const Tensor> batch) {
    const CrossEntropySums sums = losses(params, batch[0], batch[1]);
    return TaskSums{{sums.loss, sums.count}, {{sums.correct, sums.count}}};
  };
  task.metrics = {kEvalAccuracy};
  task.loss_in_nats = true;
  task.positions = {seq_length};
  task.units = {"token", seq_length};
  return task;
}

void add_windows(const Corpus& corpus, const DataConfig& config, TrainData& data) {
  const int64_t seq = config.seq_length;
  data.training = [streams = corpus.train, seq, shuffle = config.shuffle, packing = config.packing](
                      uint64_t seed, const BatchPart& part, int64_t first) {
    auto windows = std::make_shared<TrainingWindows>(
        streams, TrainingWindows::Options{
                     .seq_length = seq, .shuffle = shuffle, .seed = seed, .packing = packing});
    return std::make_unique<TokenBatches>(std::move(windows), part, first);
  };
  for (const auto& [name, tokens] : corpus.valid) {
    const auto windows = std::make_shared<EvaluationWindows>(tokens, seq, -1, config.packing);
    const auto first = [windows](const BatchPart& part, int64_t samples) {
      return std::make_unique<TokenBatches>(std::make_shared<FirstWindows>(windows, samples), part,
                                            0);
    };
    data.evaluation.push_back({name, first, windows->samples()});
  }
  data.scored_bytes = [tokenizer = corpus.tokenizer](std::span<const Tensor> batch) {
    return bytes_of(*tokenizer, batch);
  };
}

}  // namespace mstrain
