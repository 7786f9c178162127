// Optimizers as values: an update is a function from parameters, gradients and state to new parameters and state.
//
//   Optimizer optimizer(config, specs, precision);
//   OptimizerState state = optimizer.init(params);
//   params = optimizer.stored(params);
//   std::tie(params, state) = optimizer.update(std::move(params), std::move(grads), std::move(state), lr, scale);
//
// Everything that changes from step to step is a tensor, so that a compiled step stays valid. Sources of the rules are
// beside them in update_rules.cc; how states are stored in fewer bits, in stored_update.cc and docs/precision.md.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>

#include "core/optim/loss_scale.h"
#include "core/optim/optimizer_config.h"
#include "core/optim/shard.h"
#include "core/tensor/params.h"

namespace mstrain {

struct SlotSpec;

// A tree (core/tensor/tree.h) of which a checkpoint stores the leaf `slots[i].second` of a parameter as
// `<parameter>.<slots[i].first>`.
struct OptimizerState {
  Tensor step;                                        // i32 []: updates done
  std::vector<std::pair<std::string, Params>> slots;  // "master", "exp_avg", "exp_avg_scale", …
  std::optional<LossScaleState> loss_scale = {};      // where it is dynamic

  template <class V>
  void fields(V& v) {
    v("step", step);
    for (auto& [name, values] : slots) {
      v(name, values);
    }
    v("loss_scale", loss_scale);
  }
};

// What an update may depend on besides.
struct UpdateControl {
  Tensor
      apply;  // bool []: false leaves parameters, slots and step as they are, whatever the gradients; empty: true
  Tensor key;          // u32 [2] of this step, for stochastic rounding
  Shards shards = {};  // parameters, gradients and slots of these are parts
  Tensor mean_scale =
      {};  // floating []: in place of `grad_scale` for running statistics; empty: the same
};

// Whether a slot holds the scales of another one's blocks, which have a shape of their own, not the parameter's.
bool is_scale_slot(std::string_view slot);

class Optimizer {
 public:
  // `specs` say which parameters weight decay applies to; every parameter that update() meets must be among them.
  // Unless `precision` is plain, they are f32.
  Optimizer(const OptimizerConfig& config, std::span<const ParamSpec> specs,
            const PrecisionConfig& precision = {});

  const OptimizerConfig& config() const { return config_; }
  const PrecisionConfig& precision() const { return precision_; }
  // Names of the tensors that are kept for parameters, in the order of OptimizerState::slots. A rule that takes matrices apart
  // does not keep all of them for each.
  std::vector<std::string> slot_names() const;

  // Masters are `params`, everything else is zero, and step 0. For parameters that are not rounded yet.
  OptimizerState init(const Params& params) const;
  // `params` in the type that precision.params asks for.
  Params stored(Params params) const;

  // One step. `grads` holds a gradient for every parameter, under the same name; it is in the parameter's type, or, unless
  // `precision` is plain, in any floating type. `lr` and `grad_scale` are floating scalars []; gradients are multiplied by
  // `grad_scale` first (clipping, loss scale, number of micro-batches). The loss scale is for the caller to change.
  std::pair<Params, OptimizerState> update(Params params, Params grads, OptimizerState state,
                                           const Tensor& lr, const Tensor& grad_scale,
                                           const UpdateControl& control = {}) const;

 private:
  struct Traits {
    bool decay = false;
    bool follows = false;
    std::optional<MatrixForm> matrix;  // of a rule that takes matrices of hidden layers apart
  };
  const Traits& traits_of(const std::string& name) const;
  std::vector<SlotSpec> slots_of_parameter(const Traits& traits, const Shape& shape) const;

  OptimizerConfig config_;
  OptimizerConfig following_;  // how running statistics move: all the way
  PrecisionConfig precision_;
  std::unordered_map<std::string, Traits> traits_;  // by parameter
};

}  // namespace mstrain
