#include "core/optim/optimizer.h"

#include <cmath>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/optim/stored_update.h"

namespace mstrain {
namespace {

// 1 - beta^n, without the cancellation that a small n would bring.
Tensor correction(double beta, const Tensor& n) {
  return beta == 0 ? full({}, 1, n.dtype()) : -expm1(n * std::log(beta));
}

// Scalars in one accumulation type.
AdamwScalars scalars_in(Dtype dtype, const OptimizerConfig& config, const Tensor& next_step,
                        const Tensor& lr, const Tensor& grad_scale) {
  const Tensor n = cast(next_step, dtype);
  return {cast(lr, dtype), cast(grad_scale, dtype), correction(config.betas[0], n),
          correction(config.betas[1], n)};
}

void expect_scalar(std::string_view name, const Tensor& x) {
  check(x.defined() && is_floating(x.dtype()) && x.rank() == 0,
        "optimizer: {} is {}, not a floating scalar", name,
        x.defined() ? to_string(x.type()) : "an empty tensor");
}

// The key of a step that rounds nothing stochastically.
Tensor no_key() { return full({2}, 0, Dtype::kU32); }

}  // namespace

bool is_scale_slot(std::string_view slot) { return slot.ends_with(kScaleSuffix); }

Optimizer::Optimizer(const OptimizerConfig& config, std::span<const ParamSpec> specs,
                     const PrecisionConfig& precision)
    : config_(config), precision_(precision) {
  check_optimizer_config(config);
  check_precision_config(precision);
  for (const ParamSpec& spec : specs) {
    check(precision.is_plain() || spec.type.dtype == Dtype::kF32,
          "optimizer: parameter {} is {}; precision is for parameters that are declared in f32",
          spec.name, to_string(spec.type));
    decay_.emplace(spec.name, spec.decay);
  }
}

std::vector<std::string> Optimizer::slot_names() const {
  std::vector<std::string> names;
  for (const SlotSpec& slot : stored_slots(config_, precision_, {})) {
    names.push_back(slot.name);
  }
  return names;
}

OptimizerState Optimizer::init(const Params& params) const {
  OptimizerState state;
  state.step = copy(full({}, 0, Dtype::kI32));
  for (const std::string& name : slot_names()) {
    state.slots.emplace_back(name, Params());
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const TensorType& type = params.tensor(i).type();
    const std::vector<SlotSpec> slots = stored_slots(config_, precision_, type.shape);
    for (size_t s = 0; s < slots.size(); ++s) {
      TensorType slot = slots[s].type;
      slot.dtype = precision_.is_plain() ? type.dtype : slot.dtype;
      // A master shares its memory with `params` until these are rounded.
      state.slots[s].second.set(params.name(i), slots[s].name == kMasterSlot
                                                    ? cast(params.tensor(i), slot.dtype)
                                                    : copy(zeros(slot)));
    }
  }
  if (precision_.scales_dynamically()) {
    state.loss_scale = first_loss_scale_state(precision_);
  }
  return state;
}

Params Optimizer::stored(Params params) const {
  if (precision_.params != FloatType::kFp32) {
    for (auto& [name, value] : params.items()) {
      value = cast(value, precision_.param_dtype());
    }
  }
  return params;
}

bool Optimizer::decays(const std::string& name) const {
  const auto decay = decay_.find(name);
  check(decay != decay_.end(), "optimizer: parameter {} was not declared", name);
  return decay->second;
}

std::pair<Params, OptimizerState> Optimizer::update(Params params, Params grads,
                                                    OptimizerState state, const Tensor& lr,
                                                    const Tensor& grad_scale,
                                                    const UpdateControl& control) const {
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("optimizer");
  expect_scalar("lr", lr);
  expect_scalar("grad_scale", grad_scale);
  const UpdateRule& rule = update_rule(config_.type);
  const std::vector<std::string> slots = slot_names();
  check(state.slots.size() == slots.size(),
        "optimizer: {} keeps {} tensors for each parameter, the state has {}", rule.name,
        slots.size(), state.slots.size());

  const bool plain = precision_.is_plain() && !control.apply.defined();
  const Tensor next_step = state.step + 1;
  state.step = control.apply.defined() ? where(control.apply, next_step, state.step) : next_step;
  const AdamwScalars single = scalars_in(Dtype::kF32, config_, next_step, lr, grad_scale);
  std::optional<AdamwScalars> wide;
  const Tensor apply = plain || control.apply.defined() ? control.apply : full({}, 1, Dtype::kBool);
  const bool rounds = precision_.moments != MomentType::kFp32 ||
                      (precision_.params != FloatType::kFp32 && !precision_.has_master());
  check(!rounds || control.key.defined(), "optimizer: stochastic rounding needs a key");
  const Tensor key = plain || control.key.defined() ? control.key : no_key();

  for (auto& [name, parameter] : params.items()) {
    const bool decay = decays(name);
    const Shard* const shard = find_shard(control.shards, name);
    const Tensor* gradient = grads.find(name);
    const bool fits = gradient != nullptr && (plain ? gradient->type() == parameter.type()
                                                    : gradient->shape() == parameter.shape());
    check(fits, "optimizer: parameter {} is {}, its gradient {}", name, to_string(parameter.type()),
          gradient == nullptr ? "missing" : to_string(gradient->type()));
    const std::vector<SlotSpec> kept = stored_slots(config_, precision_, parameter.shape());
    Tensors own;
    for (size_t i = 0; i < slots.size(); ++i) {
      const Tensor* slot = state.slots[i].second.find(name);
      const TensorType& type = plain ? parameter.type() : kept[i].type;
      check(slot != nullptr && slot->type() == type, "optimizer: {}.{} is {}, its parameter {}",
            name, slots[i], slot == nullptr ? "missing" : to_string(slot->type()),
            to_string(parameter.type()));
      own.push_back(*slot);
    }
    Tensors next;
    if (plain) {
      const bool is_wide = accumulation_dtype(parameter.dtype()) == Dtype::kF64;
      if (is_wide && !wide) {
        wide = scalars_in(Dtype::kF64, config_, next_step, lr, grad_scale);
      }
      ParameterStep result =
          rule.apply(config_, is_wide ? *wide : single, {parameter, *gradient, own, decay, shard});
      parameter = std::move(result.parameter);
      next = std::move(result.slots);
    } else {
      StoredStep result =
          stored_update(config_, precision_, single, apply, key,
                        {parameter, *gradient, std::move(own), decay, random_site(name), shard});
      parameter = std::move(result.parameter);
      next = std::move(result.slots);
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      state.slots[i].second.set(name, std::move(next[i]));
    }
    grads.set(name, Tensor());  // eager mode: its memory may be used again at once
  }
  return {std::move(params), std::move(state)};
}

}  // namespace mstrain
