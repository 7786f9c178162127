#include "core/optim/update_rules.h"

#include <array>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/optim/muon.h"

namespace mstrain {
namespace {

constexpr std::string_view kVelocity = "momentum_buffer";

bool decays(const OptimizerConfig& config, const ParameterStep& step) {
  return step.decay && config.weight_decay > 0;
}

// Scaled, in the accumulation type, with the gradient of weight_decay / 2 |parameter|².
Tensor penalised_gradient(const OptimizerConfig& config, const AdamwScalars& scalars,
                          const ParameterStep& step) {
  const Tensor g = widened(step.gradient) * scalars.grad_scale;
  return decays(config, step) ? g + config.weight_decay * widened(step.parameter) : g;
}

// v' = μ v + g; p' = p - lr v', or p - lr (g + μ v') with Nesterov's look-ahead (Sutskever et al. 2013).
ParameterStep sgd(const OptimizerConfig& config, const AdamwScalars& scalars,
                  const ParameterStep& step) {
  const Tensor p = widened(step.parameter);
  const Tensor g = penalised_gradient(config, scalars, step);
  if (config.momentum == 0) {
    return rounded(step, p - scalars.lr * g, {});
  }
  const Tensor velocity = config.momentum * widened(step.slots[0]) + g;
  const Tensor direction = config.nesterov ? g + config.momentum * velocity : velocity;
  return rounded(step, p - scalars.lr * direction, {velocity});
}

ParameterStep fused_adamw(const OptimizerConfig& config, const AdamwScalars& scalars,
                          const ParameterStep& step, double weight_decay) {
  const AdamwState next =
      adamw_update({step.parameter, step.slots[0], step.slots[1]}, step.gradient, scalars,
                   {config.betas[0], config.betas[1], config.eps, weight_decay});
  return {next.parameter, Tensor(), {next.m, next.v}, step.decay};
}

// Loshchilov & Hutter 2019.
ParameterStep adamw(const OptimizerConfig& config, const AdamwScalars& scalars,
                    const ParameterStep& step) {
  return fused_adamw(config, scalars, step, decays(config, step) ? config.weight_decay : 0);
}

// Kingma & Ba 2015. The penalty belongs to the gradient.
ParameterStep adam(const OptimizerConfig& config, const AdamwScalars& scalars,
                   const ParameterStep& step) {
  if (!decays(config, step)) {
    return fused_adamw(config, scalars, step, 0);
  }
  ParameterStep penalised = step;
  penalised.gradient = cast(penalised_gradient(config, scalars, step), step.parameter.dtype());
  AdamwScalars unscaled = scalars;
  unscaled.grad_scale = full({}, 1, scalars.lr.dtype());
  return fused_adamw(config, unscaled, penalised, 0);
}

// s' = s + g²; p' = p - lr g / (√s' + ε) (Duchi, Hazan & Singer 2011).
ParameterStep adagrad(const OptimizerConfig& config, const AdamwScalars& scalars,
                      const ParameterStep& step) {
  const Tensor g = penalised_gradient(config, scalars, step);
  const Tensor total = widened(step.slots[0]) + square(g);
  const Tensor p = widened(step.parameter) - scalars.lr * g / (sqrt(total) + config.eps);
  return rounded(step, p, {total});
}

// s' = α s + (1 - α) g²; u = g / (√s' + ε); p' = p - lr u, or with v' = μ v + u, p - lr v' (Tieleman & Hinton 2012).
ParameterStep rmsprop(const OptimizerConfig& config, const AdamwScalars& scalars,
                      const ParameterStep& step) {
  const Tensor p = widened(step.parameter);
  const Tensor g = penalised_gradient(config, scalars, step);
  const Tensor mean_square = config.alpha * widened(step.slots[0]) + (1 - config.alpha) * square(g);
  const Tensor direction = g / (sqrt(mean_square) + config.eps);
  if (config.momentum == 0) {
    return rounded(step, p - scalars.lr * direction, {mean_square});
  }
  const Tensor velocity = config.momentum * widened(step.slots[1]) + direction;
  return rounded(step, p - scalars.lr * velocity, {mean_square, velocity});
}

// Adam's direction u, plus weight_decay p, at a length of |p| (You et al. 2020). Parameters without decay, such as biases,
// keep Adam's own length, as the authors' code does.
ParameterStep lamb(const OptimizerConfig& config, const AdamwScalars& scalars,
                   const ParameterStep& step) {
  const auto [beta1, beta2] = config.betas;
  const Tensor p = widened(step.parameter);
  const Tensor g = widened(step.gradient) * scalars.grad_scale;
  const Tensor m = beta1 * widened(step.slots[0]) + (1 - beta1) * g;
  const Tensor v = beta2 * widened(step.slots[1]) + (1 - beta2) * square(g);
  Tensor direction = m / scalars.correction1 / (sqrt(v / scalars.correction2) + config.eps);
  if (step.decay) {
    direction = direction + config.weight_decay * p;
    if (step.shard != nullptr && config.eps == 0) {
      direction = without_padding(direction, *step.shard);  // 0 / 0
    }
    const Tensors squares =
        squares_of_parts(std::array{p, direction}, std::array{step.shard, step.shard});
    const Tensor length = sqrt(squares[0]);
    const Tensor step_length = sqrt(squares[1]);
    const Tensor some = logical_and(length > 0, step_length > 0);
    direction = where(some, length / where(some, step_length, 1), 1) * direction;
  }
  return rounded(step, p - scalars.lr * direction, {m, v});
}

const UpdateRule kRules[] = {
    {OptimizerType::kSgd, "sgd", {"momentum", "nesterov"}, {kVelocity}, sgd},
    {OptimizerType::kAdam, "adam", {"betas", "eps"}, {"exp_avg", "exp_avg_sq"}, adam},
    {OptimizerType::kAdamW, "adamw", {"betas", "eps"}, {"exp_avg", "exp_avg_sq"}, adamw},
    {OptimizerType::kAdagrad, "adagrad", {"eps"}, {"sum"}, adagrad},
    {OptimizerType::kRmsProp,
     "rmsprop",
     {"alpha", "eps", "momentum"},
     {"square_avg", kVelocity},
     rmsprop},
    {OptimizerType::kLamb, "lamb", {"betas", "eps"}, {"exp_avg", "exp_avg_sq"}, lamb},
    {OptimizerType::kMuon,
     "muon",
     {"betas", "eps", "momentum", "nesterov"},
     {"exp_avg", "exp_avg_sq"},
     adamw,
     {kVelocity},
     muon_matrix},
};

}  // namespace

ParameterStep rounded(const ParameterStep& step, const Tensor& parameter, const Tensors& slots) {
  const Dtype dtype = step.parameter.dtype();
  ParameterStep result{cast(parameter, dtype), Tensor(), {}, step.decay};
  for (const Tensor& slot : slots) {
    result.slots.push_back(cast(slot, dtype));
  }
  return result;
}

const UpdateRule& update_rule(OptimizerType type) {
  for (const UpdateRule& rule : kRules) {
    if (rule.type == type) {
      return rule;
    }
  }
  fail("optimizer {} is unknown", static_cast<int>(type));
}

ParameterStep apply_rule(const OptimizerConfig& config, const AdamwScalars& scalars,
                         const ParameterStep& step) {
  const UpdateRule& rule = update_rule(config.type);
  return (step.matrix && rule.apply_to_matrix != nullptr ? rule.apply_to_matrix : rule.apply)(
      config, scalars, step);
}

bool steps_as_adamw(const OptimizerConfig& config, bool is_matrix) {
  return config.type == OptimizerType::kAdamW ||
         (config.type == OptimizerType::kMuon && !is_matrix);
}

std::vector<std::string_view> slots_of(const OptimizerConfig& config, bool is_matrix) {
  const UpdateRule& rule = update_rule(config.type);
  std::vector<std::string_view> slots =
      is_matrix && rule.apply_to_matrix != nullptr ? rule.matrix_slots : rule.slots;
  if (config.momentum == 0) {
    std::erase(slots, kVelocity);
  }
  return slots;
}

}  // namespace mstrain
