#include "suites/transformer/t5/task.h"

#include "core/data/seq2seq_loader.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "core/train/metrics.h"

namespace mstrain::t5 {
namespace {

class Batches final : public BatchStream {
 public:
  Batches(std::shared_ptr<const Seq2SeqSource> source, const BatchPart& part, int64_t first)
      : rows_(part.rows()),
        from_(source->source_length()),
        to_(source->target_length()),
        loader_(std::move(source), {.batch = part}, {first}) {}

  Tensors next() override {
    const Seq2SeqBatch& batch = loader_.next();
    Tensors out{tensor<int32_t>(batch.source, {rows_, from_}),
                tensor<int32_t>(batch.target, {rows_, to_}),
                tensor<int32_t>(batch.labels, {rows_, to_})};
    if (!batch.source_segments.empty()) {
      out.push_back(tensor<int32_t>(batch.source_segments, {rows_, from_}));
    }
    if (!batch.target_segments.empty()) {
      out.push_back(tensor<int32_t>(batch.target_segments, {rows_, to_}));
    }
    return out;
  }
  int64_t samples() const override { return loader_.state().samples; }

 private:
  int64_t rows_, from_, to_;
  Seq2SeqLoader loader_;
};

}  // namespace

TrainTask make_task(const T5& model, const Network& network, const BatchShape& shape) {
  TrainTask task;
  task.parameters = network.specs();
  task.stored_shapes = stored_shapes(network, task.parameters);
  task.batch_types = [shape](int64_t rows) {
    const TensorType from{Dtype::kI32, {rows, shape.source_length}};
    const TensorType to{Dtype::kI32, {rows, shape.target_length}};
    Types types{from, to, to};
    if (shape.rows != Rows::kFull) {
      types.push_back(from);
    }
    if (shape.rows == Rows::kPacked) {
      types.push_back(to);
    }
    return types;
  };
  task.sums = [model, rows = shape.rows](const Params& params, std::span<const Tensor> batch) {
    Text source{batch[0]};
    Text target{batch[1]};
    if (rows == Rows::kPadded) {
      source.mask = not_equal(batch[3], 0);
    } else if (rows == Rows::kPacked) {
      source.segments = batch[3];
      target.segments = batch[4];
    }
    const LossSums sums = model.losses(params, source, target, batch[2]);
    return TaskSums{{sums.loss, sums.count},
                    {{sums.correct, sums.count}, {sums.exact, sums.samples}}};
  };
  task.positions = {shape.source_length, shape.target_length};
  task.metrics = {kEvalAccuracy, kEvalExactMatch};
  task.loss_in_nats = true;
  task.units = {"token", shape.source_length + shape.target_length};
  return task;
}

std::unique_ptr<BatchStream> batches_of(std::shared_ptr<const Seq2SeqSource> source,
                                        const BatchPart& part, int64_t first) {
  return std::make_unique<Batches>(std::move(source), part, first);
}

}  // namespace mstrain::t5
