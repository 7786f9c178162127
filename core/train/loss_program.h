// The program of an evaluation: what TrainTask::sums finds in batches, without dropout. One plan, or, in a pipeline, one for each part of
// the model; or operation by operation. All give the same numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/optim/shard.h"
#include "core/train/pipeline.h"
#include "core/train/tensor_parts.h"

namespace mstrain {

class LossProgram {
 public:
  // Of batches of `rows` samples. `shards`: of weights that are given in parts along `data`. `stage`: of the pipeline, where the context has no
  // ranks. Throws ConfigError where the model's layers do not make up the pipeline.
  LossProgram(const TrainTask& task, const TrainConfig& config, int64_t rows,
              const Context& context, const Shards& shards = {}, int64_t stage = 0);

  struct Value {
    double sum = 0;
    double count = 0;
  };
  // How many batches run() takes at once: in a pipeline as many as there are stages, which are then at work together.
  int64_t batches() const { return batches_; }
  struct Found {
    std::vector<Value> sums;                     // of the loss, then of the task's metrics
    std::vector<double> scores, labels, groups;  // of the batch's samples, where the task has them
  };
  // For each batch; in a pipeline all stages are told. `params`: all weights of the task, or those that the
  // rank's stage reads, in parts as parts() and the shards say, trained ones in f32 or in precision.params. `samples`: of batches() batches,
  // one after another.
  std::vector<Found> run(const Params& params, Tensors samples) const;

  // Whether this rank reads the weight.
  bool reads(const std::string& name) const;
  const TensorParts& parts() const { return parts_; }
  // Of all its programs; nothing in eager execution. Texts: what `text_of` says of each.
  ProgramMemory memory() const;
  std::string text(const std::function<std::string(const Program&)>& text_of) const;

 private:
  // Sum and count of each, then TaskSums::scores.
  Tensors evaluate(const Params& params, std::span<const Tensor> batch) const;
  bool reads(size_t weight) const { return pipeline_ == nullptr || pipeline_->reads(weight); }
  size_t score_tensors() const { return !task_.has_scores ? 0 : task_.has_groups ? 3 : 2; }
  // By output, of each batch.
  std::vector<std::vector<double>> run_stages(const Tensors& inputs) const;

  const TrainTask& task_;
  Context context_;
  Dtype dtype_;
  TensorParts parts_;
  MeshAxis stages_;
  int64_t stage_, batches_, rows_;
  std::vector<ParamSpec> weights_;  // trained and frozen, as they are given
  std::vector<const Shard*> shard_of_;
  Shards shards_;
  size_t outputs_ = 0;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Pipeline> pipeline_;
  Tensors captures_;
};

}  // namespace mstrain
