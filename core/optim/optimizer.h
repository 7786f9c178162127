// Optimizers as values: an update is a function from parameters, gradients and state to new parameters and state.
//
//   Optimizer optimizer(config, specs);
//   OptimizerState state = optimizer.init(params);
//   std::tie(params, state) = optimizer.update(std::move(params), std::move(grads), std::move(state), lr, scale);
//
// Everything that changes from step to step is a tensor, so that a compiled step stays valid. Sources of the rules are
// beside them in update_rules.cc.
#pragma once

#include <unordered_map>
#include <utility>

#include "core/optim/optimizer_config.h"
#include "core/tensor/params.h"

namespace mstrain {

// A tree (core/tensor/tree.h) of which a checkpoint stores the leaf `slots[i].second` of a parameter as
// `<parameter>.<slots[i].first>`.
struct OptimizerState {
  Tensor step;                                        // i32 []: updates done
  std::vector<std::pair<std::string, Params>> slots;  // "exp_avg", …: shaped like the parameters

  template <class V>
  void fields(V& v) {
    v("step", step);
    for (auto& [name, values] : slots) {
      v(name, values);
    }
  }
};

class Optimizer {
 public:
  // `specs` say which parameters weight decay applies to; every parameter that update() meets must be among them.
  Optimizer(const OptimizerConfig& config, std::span<const ParamSpec> specs);

  const OptimizerConfig& config() const { return config_; }
  // Names of the tensors that the rule keeps for each parameter, in the order of OptimizerState::slots.
  std::vector<std::string> slot_names() const;

  // Zeros, and step 0.
  OptimizerState init(const Params& params) const;

  // One step. `grads` holds a gradient for every parameter, under the same name. `lr` and `grad_scale` are floating
  // scalars []; gradients are multiplied by `grad_scale` first (clipping, loss scale, number of micro-batches).
  std::pair<Params, OptimizerState> update(Params params, Params grads, OptimizerState state,
                                           const Tensor& lr, const Tensor& grad_scale) const;

 private:
  OptimizerConfig config_;
  std::unordered_map<std::string, bool> decay_;  // by parameter
};

}  // namespace mstrain
