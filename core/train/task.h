// What is trained, as functions: the trainer knows no model and no kind of data.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/params.h"

namespace mstrain {

// Sum of the losses of `count` predictions, all scalars [].
struct LossSum {
  Tensor sum;
  Tensor count;
  Tensor
      correct{};  // predictions whose likeliest outcome came true; null without TrainTask::counts_correct

  template <class V>
  void fields(V& v) {
    v("sum", sum);
    v("count", count);
    v("correct", correct);
  }
};

struct TrainTask {
  std::vector<ParamSpec> parameters;
  // The shape under which checkpoints store parameter i: the same elements in the same order.
  std::vector<Shape> stored_shapes;
  // The weights that a run begins with; null: those of the initialisers.
  std::function<Params()> initial;

  // Types of the tensors of a batch of `rows` samples; the first dim of each is `rows`.
  std::function<Types(int64_t rows)> batch_types;
  // The mean loss of a batch, a scalar []. Pure; draws from the RandomScope.
  std::function<Tensor(const Params&, std::span<const Tensor> batch)> loss;
  // The same without dropout, exact over batches with different counts.
  std::function<LossSum(const Params&, std::span<const Tensor> batch)> evaluate;

  bool loss_in_nats = false;    // of a prediction's logarithm: perplexity is its exponential
  bool counts_correct = false;  // evaluate() gives LossSum::correct

  int64_t tokens_per_sample = 1;  // what throughput counts
};

// An endless sequence of batches that goes on exactly from a number of samples.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual Tensors next() = 0;
  virtual int64_t samples() const = 0;  // taken so far
};

// The data of a run, opened when it is needed.
struct TrainData {
  // Batches of `rows` samples from sample `first` on, in an order that `seed` decides.
  std::function<std::unique_ptr<BatchStream>(uint64_t seed, int64_t rows, int64_t first)> training;
  // Held-out data from its start; null where there is none. After `evaluation_batches` all of it has been seen.
  std::function<std::unique_ptr<BatchStream>(int64_t rows)> evaluation;
  std::function<int64_t(int64_t rows)> evaluation_batches;
  // Bytes of the text whose predictions a batch of it scores; null where the data are no text.
  std::function<int64_t(std::span<const Tensor> batch)> scored_bytes;

  std::string identity;                                               // equal for equal data
  std::vector<std::pair<std::string, std::string>> checkpoint_files;  // config.json, tokenizer

  // A continuation of `prompt`, for reports; null where the model writes no text.
  std::function<std::string(const Params&, const std::string& prompt, int64_t tokens)> sample;
};

}  // namespace mstrain
