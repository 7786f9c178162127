// The gradient of one micro-batch, as a function of all that it depends on: what programs of steps are made from, and what is
// divided among ranks before they are.
#pragma once

#include "core/tensor/jit.h"
#include "core/train/sections.h"
#include "core/train/task.h"
#include "core/train/tensor_parts.h"

namespace mstrain {

struct LossAndGradient {
  Sum loss;
  std::vector<Sum> metrics = {};  // where TrainTask::measures_steps
  Params gradient = {};
  Tensors looked_up = {};   // gradients of TrainTask::looked_up, sample by sample
  Tensors magnitudes = {};  // f32 [micro-batches, weights, 3], where products are in fp8

  template <class V>
  void fields(V& v) {
    v("loss", loss);
    v("metrics", metrics);
    v("gradient", gradient);
    v("looked_up", looked_up);
    v("magnitudes", magnitudes);
  }
};

struct MicroBatch {
  Tensors samples;
  Tensor rows;  // i32 [samples]: the number of each within the step

  template <class V>
  void fields(V& v) {
    v("samples", samples);
    v("rows", rows);
  }
};

// What a micro-batch's gradient depends on besides its samples.
struct GradientState {
  Params params;  // in the types that the optimizer keeps them in
  Params frozen;
  Tensor step_key;    // u32 [2]: it and the rows decide all random numbers
  Tensor loss_scale;  // f32 []; empty: none
  Tensor magnitudes =
      {};  // f32 [weights, 3], expected (core/optim/float8_magnitudes.h), where products are in fp8
};

class GradientProgram {
 public:
  // Of `micro` samples out of the batch.global of a step. Traces it in graph execution, for the current context, and
  // divides it among the ranks of `parts`, which must outlive it: parameters and gradients are then what a rank has of them.
  GradientProgram(const TrainTask& task, const TrainConfig& config, int64_t micro,
                  const TensorParts& parts);

  // In the trace of the caller, or eagerly.
  LossAndGradient operator()(const GradientState& state, const MicroBatch& micro) const;

  size_t metrics() const { return task_.measures_steps ? task_.metrics.size() : 0; }
  size_t sums() const { return 2 * (1 + metrics()); }  // outputs before the gradients
  // Null in eager execution. Its inputs are, in this order: parameters, frozen weights, the tensors of the batch (of a rank), the rows, the
  // step key, the loss scale and the magnitudes where there are any, captures(). Its outputs: the sum of the loss, its count, those of the metrics, the gradients of
  // the parameters and of TrainTask::looked_up, and three magnitudes for each of float8_weights().
  const GraphPtr& graph() const { return graph_; }
  const Tensors& captures() const { return captures_; }
  int64_t rows() const { return rows_; }  // of a step
  size_t weights() const { return task_.parameters.size() + task_.frozen.size(); }
  size_t batch_tensors() const { return batch_; }  // with the rows
  // Of what a call results in, the last, which are not summed up but follow one another.
  size_t results_apart() const { return task_.looked_up.size() + (float8_.empty() ? 0 : 1); }
  // Of the weights, by their places, those whose products are in fp8.
  const std::vector<size_t>& float8_weights() const { return float8_; }
  // Those inputs, in their order; empty for parameters that `state` has not.
  Tensors inputs(const GradientState& state, const MicroBatch& micro) const;
  LossAndGradient result(Tensors outputs) const;

  // Of the gradients, which are sums: a power of two near a mean's share of them. It keeps those of 16 bits as far from the ends
  // of their range as the mean's are.
  double unit() const { return unit_; }
  // Whether running sums of gradients are in their own types.
  bool sums_in_own_type() const { return precision_.grads == precision_.params; }

 private:
  LossAndGradient traced(const GradientState& state, const MicroBatch& micro) const;

  const TrainTask& task_;
  const TensorParts& parts_;
  PrecisionConfig precision_;
  std::vector<size_t> float8_;
  int64_t rows_;  // of a step
  bool is_part_;  // of a step: there are other micro-batches
  double unit_;
  size_t batch_;
  GraphPtr graph_;
  Tensors captures_;
};

// Parameters named like `specs`, without values.
Params named_params(std::span<const ParamSpec> specs);
// How programs of steps and evaluations are compiled, and the context that they are made in.
CompileOptions options_of(const TrainConfig& config);
Context with_training(Context context, bool training);
// Throws Error where it is missing, or of another shape.
const Tensor& weight_of(const Params& params, const std::string& name, const TensorType& type);
// `params`, floating ones in `dtype`.
Params cast_params(Params params, Dtype dtype);

}  // namespace mstrain
