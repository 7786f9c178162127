// The program of a training step: one plan, or, in a pipeline, a few; or operation by operation, with the same numbers.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "core/optim/optimizer.h"
#include "core/optim/shard.h"
#include "core/runtime/context.h"
#include "core/train/gradient_program.h"
#include "core/train/length_parts.h"
#include "core/train/pipeline.h"

namespace mstrain {

struct TrainState {
  Params params;
  OptimizerState optimizer;
  Tensors magnitudes;  // one, where products are in fp8: core/optim/float8_magnitudes.h

  template <class V>
  void fields(V& v) {
    v("params", params);
    v("optimizer", optimizer);
    v("magnitudes", magnitudes);
  }
};

struct StepResult {
  TrainState state;
  Tensor loss;         // mean over all predictions of the step; 0 where there are none
  Tensor grad_norm;    // global, before clipping, without the loss scale
  Tensors loss_scale;  // f32 []: that of this step, where it is dynamic
  Tensors
      layer_norms;  // [] each: of the parameters' gradients, in their order, where log.layers asks for them
  Tensors
      looked_up;  // gradients of TrainTask::looked_up, of the mean loss, neither clipped nor scaled
  Tensors metrics;  // f32 []: means of TrainTask::metrics, where it measures steps; NaN over none
  Tensors is_applied;  // bool []: whether an update was made, where steps may be skipped

  template <class V>
  void fields(V& v) {
    v("state", state);
    v("loss", loss);
    v("grad_norm", grad_norm);
    v("loss_scale", loss_scale);
    v("layer_norms", layer_norms);
    v("looked_up", looked_up);
    v("metrics", metrics);
    v("is_applied", is_applied);
  }
};

// What changes from step to step besides state and batch.
struct StepNumbers {
  double lr = 0;
  uint64_t seed = 0;  // it and the step decide all random numbers
  int64_t step = 0;   // steps before this one
  // Where the configuration lets steps be skipped: the largest gradient norm with which an update is made. None is made
  // where the norm or the loss is no finite number.
  float norm_limit = std::numeric_limits<float>::max();
};

// One update on a batch of `rows` samples, computed in micro-batches of `micro`, parallel.copies of them side by side. These sum
// up what they find, and the step divides once: loss and gradients are functions of the batch, whatever `micro` is, but for the order of sums.
//
// Where ranks share the data (ranks_of), each is given its part of the batch (BatchPart), and all come to one result, which is
// that of one rank bit for bit, unless parallel.reduction leaves the order of sums open. Of large parameters the state is
// in parts, as parallel.zero says.
//
// In a pipeline each rank has the parameters that its layers read. The gradient of each is summed up by one stage, which updates
// it and sends it to the others that read it.
class StepProgram {
 public:
  // batch.global is a multiple of `micro` times the ranks that share it. Traces and compiles in graph execution (for the
  // context, which it keeps); allocates nothing. `stage`: of the pipeline, where the context has no ranks. Throws ConfigError where
  // the model's layers do not make up the pipeline.
  StepProgram(const TrainTask& task, const TrainConfig& config, int64_t micro,
              const Context& context, int64_t stage = 0);

  // The state before the first step. `params`: stage_parameters(), perhaps among others; `weight`: one of them, which may be gone when the next is asked
  // for, where this rank keeps a part of it.
  TrainState first_state(Params params) const;
  TrainState first_state(const std::function<Tensor(const ParamSpec& spec)>& weight) const;
  // One to be filled: all its leaves lie where steps take them.
  TrainState uninitialised_state() const;
  // Of the state, what lies in the host's memory (memory.offload.optimizer), in bytes.
  int64_t host_state_bytes() const;
  // The parameters of a state and frozen weights, none in parts. Every rank calls it.
  Params whole_weights(const TrainState& state, const Params& frozen) const {
    return parts_.whole(held_weights(state, frozen));
  }
  // Those of all stages, in parts along `tensor` alone, as programs take them. Every rank calls it.
  Params held_weights(const TrainState& state, const Params& frozen) const {
    return joined(held_params(state), held_frozen(frozen));
  }
  // What steps take of the task's frozen weights. Every rank calls it.
  Params own_frozen(Params whole) const {
    return in_parts(parts_.cut(std::move(whole)), frozen_shards_);
  }
  const TensorParts& parts() const { return parts_; }
  // Whose optimizer state, and perhaps more, is in parts.
  const Shards& shards() const { return shards_; }
  bool has_parts_of_parameters() const { return zero_ == 3; }
  // Whether the backward pass puts them together anew: those of the forward pass are forgotten, or kept for it.
  bool regathers() const { return has_parts_of_parameters() && regathers_; }
  // Of weights that steps keep in parts along `data`.
  Shards shards_of_weights() const;
  // Those that this rank has, and whether it keeps what the optimizer has for one.
  std::vector<ParamSpec> stage_parameters() const;
  bool updates(size_t parameter) const { return maker(parameter) == stage_; }
  // The first of the ranks that keep what belongs to a parameter, as parts or each as a whole.
  int first_rank_with(size_t parameter) const;
  // By parameter, whoever has it: what the state holds for it, and by slot, what the optimizer keeps.
  const Types& param_types() const { return param_types_; }
  const std::vector<std::vector<std::optional<TensorType>>>& slot_types() const {
    return slot_types_;
  }
  const Types& frozen_types() const { return frozen_types_; }

  // Takes the state over: pass it with std::move. `batch`: this rank's part. `frozen`: own_frozen().
  StepResult run(TrainState state, Tensors batch, const StepNumbers& numbers,
                 const Params& frozen = {}) const;

  // Appends every kernel of the steps that follow to `kernels`, and in a pipeline what its schedule names to `actions`, until
  // called with null. Nothing in eager execution.
  void profile(std::vector<KernelTime>* kernels, std::vector<ActionTime>* actions) const;

  const Optimizer& optimizer() const { return optimizer_; }
  // Of a step of all ranks, with what fills its rows up.
  int64_t units() const;
  const std::vector<LengthPart>& length_parts() const { return length_parts_; }
  // Null in eager execution. In a pipeline, that of the update.
  const Program* program() const { return program_.get(); }
  // Of all programs of a step, in graph execution. Texts: what `text_of` says of each.
  ProgramMemory memory() const;
  ProgramCost cost() const;
  std::string text(const std::function<std::string(const Program&)>& text_of) const;
  // A state without values, and the types of its leaves.
  const TrainState& form() const { return form_; }
  const Types& state_types() const { return state_types_; }

 private:
  // Of the program of a step.
  struct Arguments {
    TrainState state;
    Params frozen;
    Tensors batch;
    Tensor lr;           // f32 []
    Tensor key;          // u32 [2]
    Tensor step;         // i32 []
    Tensors norm_limit;  // f32 [], where steps may be skipped
    Tensors sums;        // of a pipeline's programs

    template <class V>
    void fields(V& v) {
      v("state", state);
      v("frozen", frozen);
      v("batch", batch);
      v("lr", lr);
      v("key", key);
      v("step", step);
      v("norm_limit", norm_limit);
      v("sums", sums);
    }
  };
  // How values of micro-batches are added up.
  struct Summing {
    SumRule each;
    std::function<Tensors(std::span<const Tensor> sums)> finish;  // in the types of the values
  };
  // Throws ConfigError or PlanError where products cannot be in fp8 although they are to be.
  void check_float8() const;
  StepResult step(const Arguments& arguments) const;
  // The norm of `share` times the summed gradients, by the sums of their squares, and the factor that brings them there and within
  // the limit.
  Tensors learned(const Tensors& of_parameters) const;
  std::pair<Tensor, Tensor> clipping(const Tensors& squares, const Tensor& share) const;
  // For each parameter of the gradient. Every rank calls it.
  Tensors squares_of(const Params& gradient) const;
  // The samples of this rank, with their numbers.
  MicroBatch numbered(const Tensors& batch) const;
  // The sums over the micro-batches of all ranks. Gradients of cut_ are parts.
  LossAndGradient summed(const Arguments& arguments, const Tensor& step_key,
                         const Tensor& loss_scale) const;
  // Of such values over the ranks that share batches. `shards`: of each, null where its sum is wanted whole.
  Summing summing(const Types& values, std::vector<const Shard*> shards) const;
  // Loops over the micro-batches of each part of the batch, and of all ranks. `one`: of a program and a micro-batch.
  template <class F>
  LossAndGradient summed_in_loops(const F& one, const MicroBatch& all) const;
  // Of a rank's samples, `count` from `first` on, as long as a task has them.
  static MicroBatch cut(const MicroBatch& all, int64_t first, int64_t count, const TrainTask& task);
  // Those of fp8, f32 [weights, 3]; empty: none.
  static Tensor magnitudes_expected(const TrainState& state);
  // With those that the micro-batches of all ranks have found.
  Tensors next_magnitudes_of(const TrainState& state, const Tensors& found) const;
  Params held_params(const TrainState& state) const;
  Params held_frozen(const Params& own) const;
  // Of `params`, those of `shards` in parts, or whole again, gathered under other work where `overlaps`.
  static Params in_parts(Params params, const Shards& shards);
  static Params whole(Params params, const Shards& shards, bool overlaps);
  OptimizerState first_slots(const Params& params) const;
  // Calls f with each tensor that the optimizer keeps for a parameter.
  static void for_slots(OptimizerState& state, const std::function<void(Tensor&)>& f);
  // The factor of the loss; empty: none.
  Tensor loss_scale_of(const TrainState& state) const;

  // Pipelines.
  void make_pipeline(const TrainConfig& config, const CompileOptions& options);
  // Results of the gradient program: sums, gradients of parameters, magnitudes.
  bool is_sum(int result) const;
  bool is_magnitude(int result) const;
  size_t parameter_of(int result) const;
  size_t result_of(size_t parameter) const;
  int maker(size_t parameter) const;  // the stage that sums up its gradient
  bool is_here(size_t parameter) const;
  // Of `params`, those that the rank has, or updates.
  Params of_stage(const Params& params) const;
  Params own(const Params& params) const;
  Params of_all_stages(const Params& params) const;
  // What the pipeline's programs add up in a step.
  Tensors pipeline_sums(const TrainState& state, const Params& frozen, const Tensors& batch,
                        const Tensors& scalars) const;
  LossAndGradient of_own_stage(std::span<const Tensor> sums) const;
  // Makes the loss, the metrics and `sum.magnitudes` known to all stages, and the squares of all parameters.
  Tensors squares_of_all_stages(LossAndGradient& sum) const;
  // Gives the stages that read a parameter of another one its new value.
  void send_copies(Params& params) const;

  const TrainTask& task_;
  Context context_;
  PrecisionConfig precision_;
  TensorParts parts_;
  Optimizer optimizer_;
  std::optional<double> clip_;
  bool may_skip_;
  bool looks_at_layers_;
  bool slots_on_host_;                    // memory.offload.optimizer
  MeshAxis data_;                         // the ranks that share batches
  MeshAxis stages_;                       // the ranks that share layers
  int64_t stage_;                         // of these, this one
  int64_t zero_;                          // parallel.zero.stage; 0 on one rank
  bool regathers_;                        // unless parallel.zero.regather is never
  bool in_order_;                         // parallel.reduction is exact
  OverlapConfig overlap_;                 // parallel.overlap
  double bundle_bytes_;                   // parallel.bucket_mb
  Shards cut_;                            // parameters whose gradients are summed up in parts
  Shards shards_;                         // those of them whose optimizer state is in parts
  Shards frozen_shards_;                  // weights that are not trained
  int64_t micro_batches_;                 // of all ranks
  int64_t copies_;                        // of these, how many a rank computes side by side
  std::vector<LengthPart> length_parts_;  // of a batch; none: it is one part
  GradientProgram gradient_;              // of a micro-batch, of the last part
  std::vector<GradientProgram> shorter_;  // of those before
  std::unique_ptr<Pipeline> pipeline_;    // null on one stage
  std::vector<Summing> group_sums_;       // of its groups
  TrainState form_;
  Types state_types_;
  Types param_types_;
  std::vector<std::vector<std::optional<TensorType>>> slot_types_;  // none: not of that parameter
  Types frozen_types_;
  std::unique_ptr<Program> program_;
  Tensors captures_;
  StepResult result_form_;
};

// What the task's weights are besides the trained ones.
Params frozen_weights(const TrainTask& task);

}  // namespace mstrain
