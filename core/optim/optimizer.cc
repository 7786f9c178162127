#include "core/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/optim/muon.h"
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

Params& values_of(OptimizerState& state, std::string_view slot) {
  const auto found = std::find_if(state.slots.begin(), state.slots.end(),
                                  [&](const auto& each) { return each.first == slot; });
  check(found != state.slots.end(), "optimizer: the state has no {}", slot);
  return found->second;
}

// The key of a step that rounds nothing stochastically.
Tensor no_key() { return full({2}, 0, Dtype::kU32); }

}  // namespace

bool is_scale_slot(std::string_view slot) { return slot.ends_with(kScaleSuffix); }

Optimizer::Optimizer(const OptimizerConfig& config, std::span<const ParamSpec> specs,
                     const PrecisionConfig& precision)
    : config_(config),
      following_{.type = OptimizerType::kSgd, .lr = 1, .clip_grad = std::nullopt},
      precision_(precision) {
  check_optimizer_config(config);
  check_precision_config(precision);
  for (const ParamSpec& spec : specs) {
    check(precision.is_plain() || spec.type.dtype == Dtype::kF32,
          "optimizer: parameter {} is {}; precision is for parameters that are declared in f32",
          spec.name, to_string(spec.type));
    const bool apart = update_rule(config.type).apply_to_matrix != nullptr;
    traits_.emplace(spec.name, Traits{spec.decay, spec.follows,
                                      apart && !spec.follows ? hidden_matrix(spec) : std::nullopt});
  }
}

std::vector<SlotSpec> Optimizer::slots_of_parameter(const Traits& traits,
                                                    const Shape& shape) const {
  return stored_slots(traits.follows ? following_ : config_, precision_, shape,
                      traits.matrix.has_value());
}

// Those of matrices that a rule takes apart, then those of others, then those of statistics.
std::vector<std::string> Optimizer::slot_names() const {
  std::vector<std::string> names;
  const Traits kinds[] = {{.matrix = MatrixForm()}, {}, {.follows = true}};
  for (const Traits& kind : kinds) {
    const bool is_there = std::any_of(traits_.begin(), traits_.end(), [&](const auto& parameter) {
      return parameter.second.follows == kind.follows &&
             parameter.second.matrix.has_value() == kind.matrix.has_value();
    });
    const bool stands_for_all = traits_.empty() && !kind.follows && !kind.matrix;
    if (!is_there && !stands_for_all) {
      continue;
    }
    for (const SlotSpec& slot : slots_of_parameter(kind, {})) {
      if (std::find(names.begin(), names.end(), slot.name) == names.end()) {
        names.push_back(slot.name);
      }
    }
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
    for (const SlotSpec& slot : slots_of_parameter(traits_of(params.name(i)), type.shape)) {
      TensorType kept = slot.type;
      kept.dtype = precision_.is_plain() ? type.dtype : kept.dtype;
      // A master shares its memory with `params` until these are rounded.
      values_of(state, slot.name)
          .set(params.name(i),
               slot.name == kMasterSlot ? cast(params.tensor(i), kept.dtype) : copy(zeros(kept)));
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

const Optimizer::Traits& Optimizer::traits_of(const std::string& name) const {
  const auto found = traits_.find(name);
  check(found != traits_.end(), "optimizer: parameter {} was not declared", name);
  return found->second;
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
  const Tensor mean_scale = control.mean_scale.defined() ? control.mean_scale : grad_scale;
  std::map<std::pair<bool, Dtype>, AdamwScalars> all_scalars;
  const auto scalars_of = [&](const Traits& traits, Dtype dtype) -> const AdamwScalars& {
    auto& scalars = all_scalars[{traits.follows, dtype}];
    if (!scalars.lr.defined()) {
      scalars = traits.follows
                    ? scalars_in(dtype, following_, next_step, full({}, following_.lr), mean_scale)
                    : scalars_in(dtype, config_, next_step, lr, grad_scale);
    }
    return scalars;
  };
  const Tensor apply = plain || control.apply.defined() ? control.apply : full({}, 1, Dtype::kBool);
  const bool rounds = precision_.moments != MomentType::kFp32 ||
                      (precision_.params != FloatType::kFp32 && !precision_.has_master());
  check(!rounds || control.key.defined(), "optimizer: stochastic rounding needs a key");
  const Tensor key = plain || control.key.defined() ? control.key : no_key();

  for (auto& [name, parameter] : params.items()) {
    const Traits& traits = traits_of(name);
    const OptimizerConfig& config = traits.follows ? following_ : config_;
    const Shard* const shard = find_shard(control.shards, name);
    const Tensor* gradient = grads.find(name);
    const bool fits = gradient != nullptr && (plain ? gradient->type() == parameter.type()
                                                    : gradient->shape() == parameter.shape());
    check(fits, "optimizer: parameter {} is {}, its gradient {}", name, to_string(parameter.type()),
          gradient == nullptr ? "missing" : to_string(gradient->type()));
    const std::vector<SlotSpec> kept = slots_of_parameter(traits, parameter.shape());
    Tensors own;
    for (const SlotSpec& each : kept) {
      const Tensor* slot = values_of(state, each.name).find(name);
      const TensorType& type = plain ? parameter.type() : each.type;
      check(slot != nullptr && slot->type() == type, "optimizer: {}.{} is {}, its parameter {}",
            name, each.name, slot == nullptr ? "missing" : to_string(slot->type()),
            to_string(parameter.type()));
      own.push_back(*slot);
    }
    Tensors next;
    if (plain) {
      const Dtype dtype = accumulation_dtype(parameter.dtype());
      ParameterStep result =
          apply_rule(config, scalars_of(traits, dtype),
                     {parameter, *gradient, own, traits.decay, shard, traits.matrix});
      parameter = std::move(result.parameter);
      next = std::move(result.slots);
    } else {
      StoredStep result =
          stored_update(config, precision_, scalars_of(traits, Dtype::kF32), apply, key,
                        {parameter, *gradient, std::move(own), traits.decay, random_site(name),
                         shard, traits.matrix});
      parameter = std::move(result.parameter);
      next = std::move(result.slots);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      values_of(state, kept[i].name).set(name, std::move(next[i]));
    }
    grads.set(name, Tensor());  // eager mode: its memory may be used again at once
  }
  return {std::move(params), std::move(state)};
}

}  // namespace mstrain
