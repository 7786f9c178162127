// Where the state of a step begins and lies, in parts and whole (core/train/step.h).
#include "core/optim/float8_magnitudes.h"
#include "core/tensor/host_memory.h"
#include "core/train/step.h"

namespace mstrain {

TrainState StepProgram::first_state(Params params) const {
  return first_state([&](const ParamSpec& spec) {
    const Tensor value = weight_of(params, spec.name, spec.type);
    params.set(spec.name, Tensor());
    return value;
  });
}

TrainState StepProgram::first_state(
    const std::function<Tensor(const ParamSpec& spec)>& weight) const {
  TrainState state;
  Params params;
  Params parts;
  for (const ParamSpec& spec : stage_parameters()) {
    Params one;
    one.set(spec.name, weight(spec));
    one = parts_.cut(std::move(one));
    const Params part = in_parts(one, shards_);
    parts.set(spec.name, part.tensor(0));
    params.set(spec.name, has_parts_of_parameters() ? part.tensor(0) : one.tensor(0));
  }
  state.optimizer = first_slots(own(parts));
  state.params = optimizer_.stored(std::move(params));
  if (const size_t weights = gradient_.float8_weights().size(); weights > 0) {
    state.magnitudes = {first_magnitudes(precision_, weights)};
  }
  return state;
}

void StepProgram::for_slots(OptimizerState& state, const std::function<void(Tensor&)>& f) {
  for (auto& [slot, values] : state.slots) {
    for (auto& [name, value] : values.items()) {
      f(value);
    }
  }
}

// In the host's memory one by one: together they may be more than the device has.
OptimizerState StepProgram::first_slots(const Params& params) const {
  if (!slots_on_host_ || Trace::innermost() != nullptr) {
    return optimizer_.init(params);
  }
  OptimizerState state = optimizer_.init({});
  for (size_t i = 0; i < params.size(); ++i) {
    Params one;
    one.set(params.name(i), params.tensor(i));
    OptimizerState own = optimizer_.init(one);
    for (size_t s = 0; s < state.slots.size(); ++s) {
      for (auto& [name, value] : own.slots[s].second.items()) {
        state.slots[s].second.set(name, on_host(value));
      }
    }
  }
  return state;
}

TrainState StepProgram::uninitialised_state() const {
  TrainState state = form_;
  size_t leaf = 0;
  LeafVisitor allocate(LeafVisitor::Access::kWrite, [&](const std::string&, Tensor& tensor) {
    tensor = uninitialised(state_types_[leaf++]);
  });
  allocate("params", state.params);
  allocate("step", state.optimizer.step);
  for_slots(state.optimizer, [&](Tensor& slot) {
    slot = (slots_on_host_ ? uninitialised_in_host_memory : uninitialised)(state_types_[leaf++]);
  });
  allocate("loss_scale", state.optimizer.loss_scale);
  allocate("magnitudes", state.magnitudes);
  return state;
}

int64_t StepProgram::host_state_bytes() const {
  if (!slots_on_host_) {
    return 0;
  }
  OptimizerState form = form_.optimizer;
  size_t leaf = form_.params.size() + 1;  // behind the count of steps
  int64_t bytes = 0;
  for_slots(form, [&](Tensor&) { bytes += state_types_[leaf++].bytes(); });
  return bytes;
}

Shards StepProgram::shards_of_weights() const {
  Shards all = frozen_shards_;
  if (has_parts_of_parameters()) {
    all.insert(shards_.begin(), shards_.end());
  }
  return all;
}

Params StepProgram::held_params(const TrainState& state) const {
  if (pipeline_ != nullptr) {
    return of_all_stages(state.params);
  }
  return has_parts_of_parameters() ? whole(state.params, shards_, overlap_.parameters)
                                   : state.params;
}

Params StepProgram::held_frozen(const Params& own) const {
  return whole(own, frozen_shards_, overlap_.parameters);
}

Params StepProgram::in_parts(Params params, const Shards& shards) {
  for (const auto& [name, shard] : shards) {
    if (const Tensor* const it = params.find(name)) {
      params.set(name, part_of(*it, shard));
    }
  }
  return params;
}

Params StepProgram::whole(Params params, const Shards& shards, bool overlaps) {
  const WaitScope scope(!overlaps);
  for (const auto& [name, shard] : shards) {
    if (const Tensor* const it = params.find(name)) {
      params.set(name, whole_of(*it, shard));
    }
  }
  return params;
}

}  // namespace mstrain
