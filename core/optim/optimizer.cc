#include "core/optim/optimizer.h"

#include <cmath>

#include "core/ops/accumulate.h"
#include "core/ops/build.h"
#include "core/ops/shape.h"
#include "core/optim/update_rules.h"

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
  check(x && is_floating(x.dtype()) && x.rank() == 0, "optimizer: {} is {}, not a floating scalar",
        name, x ? to_string(x.type()) : "an empty tensor");
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, std::span<const ParamSpec> specs)
    : config_(config) {
  check_optimizer_config(config);
  for (const ParamSpec& spec : specs) {
    decay_.emplace(spec.name, spec.decay);
  }
}

std::vector<std::string> Optimizer::slot_names() const {
  const std::vector<std::string_view> slots = slots_of(config_);
  return {slots.begin(), slots.end()};
}

OptimizerState Optimizer::init(const Params& params) const {
  OptimizerState state;
  state.step = copy(full({}, 0, Dtype::kI32));
  for (const std::string& name : slot_names()) {
    Params slot;
    for (size_t i = 0; i < params.size(); ++i) {
      slot.set(params.name(i), copy(zeros(params.tensor(i).type())));
    }
    state.slots.emplace_back(name, std::move(slot));
  }
  return state;
}

std::pair<Params, OptimizerState> Optimizer::update(Params params, Params grads,
                                                    OptimizerState state, const Tensor& lr,
                                                    const Tensor& grad_scale) const {
  const NameScope scope("optimizer");
  expect_scalar("lr", lr);
  expect_scalar("grad_scale", grad_scale);
  const UpdateRule& rule = update_rule(config_.type);
  const std::vector<std::string> slots = slot_names();
  check(state.slots.size() == slots.size(),
        "optimizer: {} keeps {} tensors for each parameter, the state has {}", rule.name,
        slots.size(), state.slots.size());

  state.step = state.step + 1;
  const AdamwScalars single = scalars_in(Dtype::kF32, config_, state.step, lr, grad_scale);
  std::optional<AdamwScalars> wide;

  for (auto& [name, parameter] : params.items()) {
    const auto decay = decay_.find(name);
    check(decay != decay_.end(), "optimizer: parameter {} was not declared", name);
    const Tensor* gradient = grads.find(name);
    check(gradient != nullptr && gradient->type() == parameter.type(),
          "optimizer: parameter {} is {}, its gradient {}", name, to_string(parameter.type()),
          gradient == nullptr ? "missing" : to_string(gradient->type()));
    const bool is_wide = accumulation_dtype(parameter.dtype()) == Dtype::kF64;
    if (is_wide && !wide) {
      wide = scalars_in(Dtype::kF64, config_, state.step, lr, grad_scale);
    }

    ParameterStep step{parameter, *gradient, {}, decay->second};
    for (size_t i = 0; i < slots.size(); ++i) {
      const Tensor* slot = state.slots[i].second.find(name);
      check(slot != nullptr && slot->type() == parameter.type(),
            "optimizer: {}.{} is {}, its parameter {}", name, slots[i],
            slot == nullptr ? "missing" : to_string(slot->type()), to_string(parameter.type()));
      step.slots.push_back(*slot);
    }
    ParameterStep next = rule.apply(config_, is_wide ? *wide : single, step);
    parameter = std::move(next.parameter);
    for (size_t i = 0; i < slots.size(); ++i) {
      state.slots[i].second.set(name, std::move(next.slots[i]));
    }
    grads.set(name, Tensor());  // eager mode: its memory may be used again at once
  }
  return {std::move(params), std::move(state)};
}

}  // namespace mstrain
